"""Lists of clients: sorted, page by page, with their numbers; and what they were denied."""

import random
from typing import Any

from mhub.core.scan import CLIENT_SORTS
from mhub.operations import cursors
from mhub.operations.contract import BadArgument, ClientSummary
from tests.helpers import packets as p
from tests.operations.case import Case


def value_of(client: ClientSummary, field: str) -> Any:
    return getattr(client, field) or 0


class SortTests(Case):
    def fill(self) -> None:
        """Clients that differ in all that lists are sorted by; some are away."""
        chance = random.Random(5)
        reader = self.world.client("all")
        reader.subscribe("#")
        for n in range(60):
            self.world.now += chance.random()
            client = self.world.client(f"c{n:02}", clean=False)
            for k in range(chance.randrange(4)):
                client.subscribe(f"{n}/{k}", 1)
            client.send(p.publish(f"to/{n}", b"x" * chance.randrange(9)) * (n % 7))
            if n % 3 == 0:
                client.lose()
        self.world.client("sender").send(
            *[p.publish(f"{n}/{k}", b"xy", 1, 1 + k) for n in range(60) for k in range(3)]
        )
        self.world.wait(20.0, 80)

    def all_pages(self, sort: str, limit: int, **asked: Any) -> list[ClientSummary]:
        found: list[ClientSummary] = []
        cursor = ""
        while True:
            page = self.done(
                self.operations.clients(sort=sort, limit=limit, cursor=cursor, **asked)
            )
            self.assertLessEqual(len(page.clients), limit)
            found += page.clients
            cursor = page.next
            if not cursor:
                self.assertEqual(page.left, 0)
                return found

    def test_each_field_both_ways(self) -> None:
        self.fill()
        for field in CLIENT_SORTS:
            for sort in (field, f"-{field}"):
                found = self.all_pages(sort, 7)
                self.assertEqual(len(found), 62)
                sign = -1 if sort != field else 1
                if field == "client_id":
                    wanted = sorted(found, key=lambda each: each.client_id, reverse=sign < 0)
                else:
                    wanted = sorted(
                        found,
                        key=lambda each: (sign * value_of(each, field), each.client_id),
                    )
                self.assertEqual(found, wanted, sort)

    def test_filters_with_another_sort(self) -> None:
        self.fill()
        found = self.all_pages("-messages_in", 5, state="connected", match="c*")
        self.assertEqual(len(found), 40)
        self.assertEqual({each.state for each in found}, {"connected"})
        self.assertEqual(found[0].messages_in, 6)

    def test_numbers(self) -> None:
        client = self.world.client("a")
        client.subscribe("t")
        for _ in range(30):
            client.send(p.publish("t", b"12345") * 4)
            self.world.wait(1.0, 4)
        (told,) = self.done(self.operations.clients()).clients
        self.assertEqual((told.messages_in, told.bytes_in), (120, 600))
        self.assertEqual((told.messages_out, told.bytes_out), (120, 600))
        self.assertApproximates(told.messages_in_per_s, 4.0, 0.5)
        self.assertApproximates(told.bytes_out_per_s, 20.0, 2.5)

    def test_top(self) -> None:
        self.fill()
        top = self.done(self.operations.clients_top("messages_in", 3)).clients
        self.assertEqual([each.client_id for each in top], ["sender", "c13", "c20"])
        self.assertIn("by:", self.refused(self.operations.clients_top("client_id"), BadArgument))

    def test_a_list_goes_on_where_it_was(self) -> None:
        """Also if the client that the cursor is of is gone."""
        for n in range(9):
            self.world.client(f"c{n}")
        page = self.done(self.operations.clients(limit=3))
        self.world.hub.end_session(self.world.hub.sessions["c2"])
        page = self.done(self.operations.clients(limit=3, cursor=page.next))
        self.assertEqual([each.client_id for each in page.clients], ["c3", "c4", "c5"])

    def test_what_makes_no_sense(self) -> None:
        self.world.client("a")
        self.world.client("b")
        cursor = self.done(self.operations.clients(limit=1)).next
        for asked in (
            {"sort": "colour"},
            {"sort": ""},
            {"cursor": "x"},
            {"cursor": "%%%"},
            {"cursor": cursors.write("client_id", 0.0, "a")[:-3]},
            {"cursor": cursor, "sort": "queued"},
            {"after": "a", "sort": "queued"},
        ):
            self.refused(self.operations.clients(**asked), BadArgument)
        text = self.refused(self.operations.clients(cursor=cursor, sort="-queued"), BadArgument)
        self.assertIn("by 'client_id'", text)


class DenialTests(Case):
    def test_why_the_last_publish_was_denied(self) -> None:
        self.with_rules(("publish", "u", "no"), ("publish", "u", "no/2"))
        client = self.world.client("a", username="u")
        client.publish("no", b"x", 1)
        self.world.now += 5.0
        client.publish("yes", b"x", 1)
        (denial,) = self.operations.client("a").denials
        self.assertEqual((denial.action, denial.topic, denial.count), ("publish", "no", 1))
        self.assertEqual((denial.rule, denial.qos), ("publish no 1 False", 1))
        client.publish("no/2", b"x")
        client.publish("no/2", b"x")
        (later,) = self.operations.client("a").denials
        self.assertEqual((later.topic, later.count), ("no/2", 2))
        self.assertEqual(later.rule, "publish no/2 0 False")  # looked for when it was asked for
        self.assertEqual(later.at, denial.at + 5.0)

    def test_the_last_of_each_kind(self) -> None:
        self.with_rules(
            ("publish", "u", "p"),
            ("subscribe", "u", "s"),
            ("receive", "u", "t"),
            ("will", "u", "w"),
        )
        client = self.world.client("a", username="u", clean=False)
        for step in (
            lambda: client.publish("p", b"x"),
            lambda: client.subscribe("s"),
            lambda: client.subscribe("t"),
            lambda: self.publish("t", connect={"username": "v"}),
        ):
            self.world.now += 1.0
            step()
        client.lose()
        denials = self.operations.client("a").denials
        self.assertEqual(
            [(each.action, each.topic) for each in denials],
            [("receive", "t"), ("subscribe", "s"), ("publish", "p")],
        )

    def test_topics_of_the_broker(self) -> None:
        client = self.world.client("a")
        client.publish("$SYS/mine", b"x")
        (denial,) = self.operations.client("a").denials
        self.assertEqual(denial.rule, "reserved")
