"""Recent events and denials: sequence numbers, filters, and bounds."""

from mhub.core import events
from mhub.core.principal import Principal
from mhub.operations.activity import LONGEST, MOST, MOST_DENIALS
from mhub.operations.contract import BadArgument
from tests.operations.watched import MIDNIGHT, WatchedCase


class EventTests(WatchedCase):
    def seen(self, **asked: object) -> list[tuple[str, str]]:
        page = self.operations.events(**asked)  # type: ignore[arg-type]
        return [(each.kind, each.client_id) for each in page.events]

    def test_what_happens_with_its_time(self) -> None:
        self.world.now += 7.0
        client = self.world.client("a", 5, username="me")
        client.lose()
        first, second = self.operations.events().events
        self.assertEqual((first.seq, first.time, first.kind), (1, MIDNIGHT + 7, "connected"))
        self.assertEqual((first.client_id, first.claimed_user, first.version), ("a", "me", "5.0"))
        self.assertEqual((second.seq, second.kind, second.by), (2, "disconnected", "network"))

    def test_continue(self) -> None:
        for name in "abc":
            self.world.client(name)
        page = self.operations.events(limit=2)
        self.assertEqual([each.client_id for each in page.events], ["b", "c"])  # the last ones
        self.assertEqual((page.next, page.lost), (3, 0))
        self.assertEqual(self.operations.events(after=3).events, ())
        for name in "def":
            self.world.client(name)
        page = self.operations.events(after=3, limit=2)
        self.assertEqual([each.client_id for each in page.events], ["d", "e"])
        page = self.operations.events(after=page.next, limit=2)
        self.assertEqual([each.client_id for each in page.events], ["f"])
        self.assertEqual(page.next, 6)

    def test_after_a_restart(self) -> None:
        """The numbers begin again: who continues from a higher one gets all there are."""
        self.world.client("a")
        page = self.operations.events(after=5000)
        self.assertEqual([each.client_id for each in page.events], ["a"])

    def test_filters(self) -> None:
        self.world.client("sensor-1", username="me")
        self.world.client("pump-1").lose()
        self.world.hub.events.node("b", "down", "")
        self.assertEqual(self.seen(kinds=("disconnected",)), [("disconnected", "pump-1")])
        self.assertEqual(self.seen(client_id="sensor-*"), [("connected", "sensor-1")])
        self.assertEqual(self.seen(user="me"), [("connected", "sensor-1")])
        self.assertEqual(self.seen(node="b"), [("node", "")])
        self.assertEqual(self.seen(listener="other"), [])
        self.assertRaises(BadArgument, self.seen, kinds=("nonsense",))
        self.assertRaises(BadArgument, self.seen, limit=0)

    def test_a_filter_that_fits_nothing_continues_at_the_end(self) -> None:
        self.world.client("a")
        self.assertEqual(self.operations.events(kinds=("node",), after=1).next, 1)

    def test_a_storm_of_connections_pushes_nothing_else_out(self) -> None:
        hub = self.world.hub
        hub.events.node("b", "down", "")
        for number in range(MOST + 10):
            hub.events.stranger("mqtt", f"10.0.0.1:{number}", "")
        page = self.operations.events(after=1, limit=MOST)
        self.assertEqual((len(page.events), page.lost), (MOST, 10))
        self.assertEqual(self.seen(kinds=("node",)), [("node", "")])

    def test_long_names_are_cut(self) -> None:
        self.world.hub.events.node("b", "down", "x" * 70_000)
        self.assertEqual(len(self.operations.events().events[0].text), LONGEST + 1)

    def test_a_traceback_is_not_kept(self) -> None:
        self.assertNotIn("error", self.operations.events.__annotations__)
        activity = self.operations.monitor._activity
        event = events.Event(events.CRASHED)
        event.error = ValueError("secret")
        activity.emit(event)
        self.assertNotIn("secret", repr(self.operations.events()))


class DenialTests(WatchedCase):
    def denied(
        self, client_id: str, topic: str, rule: str = "no rule", count: int = 1, first: bool = True
    ) -> None:
        event = events.Event(events.DENIED)
        event.principal = Principal("10.0.0.1:5", "mqtt")
        event.principal.client_id = client_id
        event.cause = "publish"
        event.topic = topic
        event.rule = rule
        event.count = count
        event.is_first = first
        self.world.hub.events.emit(event)

    def counts(self) -> list[tuple[str, str, int]]:
        found = self.operations.denials().denials
        return [(each.client_id, each.topic, each.count) for each in found]

    def test_by_who_and_what(self) -> None:
        self.denied("a", "t/1")
        self.denied("a", "t/2")
        self.denied("b", "t/1")
        self.world.now += 30
        self.denied("a", "t/1")
        self.assertEqual(self.counts(), [("a", "t/1", 2), ("b", "t/1", 1), ("a", "t/2", 1)])
        last = self.operations.denials(1).denials[0]
        self.assertEqual((last.first_at, last.last_at), (MIDNIGHT, MIDNIGHT + 30))
        self.assertEqual((last.action, last.rule, last.listener), ("publish", "no rule", "mqtt"))

    def test_those_that_follow_belong_to_the_first(self) -> None:
        self.denied("a", "t/1")
        self.denied("a", "", count=41, first=False)
        self.assertEqual(self.counts(), [("a", "t/1", 42)])

    def test_those_of_many_clients_together(self) -> None:
        self.denied("", "", count=5, first=False)
        self.assertEqual(self.counts(), [("", "", 5)])

    def test_so_many_and_no_more(self) -> None:
        for number in range(MOST_DENIALS + 50):
            self.denied(f"c{number}", "t")
        self.assertEqual(len(self.operations.denials(1000).denials), MOST_DENIALS)
        self.assertEqual(self.counts()[0], (f"c{MOST_DENIALS + 49}", "t", 1))
        self.assertEqual(len(self.operations.monitor._activity._topics), MOST_DENIALS)
