"""The table that each node tells the others: all of it, or what has changed, and nothing twice."""

from itertools import pairwise
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.frames import AGAIN, CONFIRM, DIGESTS, PUBLISHES, TABLE
from mhub.cluster.tables import PART
from mhub.core.table import FILTER, LOG
from mhub.wire.primitives import read_u64
from tests.cluster.far import Far, Here
from tests.helpers import packets as p


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.here = Here()
        self.client = self.here.world.client("c")
        self.base = self.here.peers.table.number  # the client is in the table, too

    def subscribe(self, *topic_filters: str) -> None:
        self.client.send(p.subscribe(1, *[(each, 0) for each in topic_filters]))

    def many(self, count: int) -> None:
        """So many changes of the table, by so many new filters."""
        first = self.here.peers.table.number
        for number in range(first, first + count):
            self.here.peers.table.announce(f"{FILTER}t/{number}", 1)

    def names(self, parts: list[dict[str, Any]]) -> list[str]:
        return [name for part in parts for name, _ in part["set"]]

    def bounds(self, parts: list[dict[str, Any]]) -> list[tuple[int, int]]:
        return [(part["at"], part["to"]) for part in parts]


class AllOfIt(Case):
    def check_whole(self, far: Far) -> list[dict[str, Any]]:
        """What was told is all of the table, once."""
        parts = far.told(TABLE)
        self.assertEqual(sorted(self.names(parts)), sorted(self.here.peers.table.names))
        self.assertEqual(parts[0]["at"], -2)
        self.assertEqual(parts[-1]["to"], self.here.peers.table.number)
        return parts

    def test_to_a_node_that_has_nothing_of_it(self) -> None:
        self.subscribe("x", "y/#")
        parts = self.check_whole(self.here.link())
        self.assertEqual(self.names(parts).count("fx"), 1)

    def test_an_empty_one_is_told_as_well(self) -> None:
        """So the other node knows that this is all."""
        here = Here()
        self.assertEqual(here.link().told(TABLE), [{"at": -2, "to": 0, "set": [], "number": 0}])

    def test_in_parts_of_which_only_the_last_has_the_number(self) -> None:
        """A link that breaks half way must not leave a table that counts as whole."""
        self.many(2 * PART)
        parts = self.check_whole(self.here.link())
        number = self.here.peers.table.number
        self.assertEqual(self.bounds(parts), [(-2, -1), (-1, -1), (-1, number)])
        self.assertEqual([len(part["set"]) for part in parts][:2], [PART, PART])

    def test_as_many_names_as_one_part_has(self) -> None:
        self.many(PART - self.base)
        parts = self.check_whole(self.here.link())
        self.assertEqual(self.bounds(parts), [(-2, self.here.peers.table.number)])

    def test_to_a_node_that_had_it_from_another_process(self) -> None:
        self.check_whole(self.here.link(("a0", self.base)))

    def test_to_a_node_that_claims_to_know_what_is_not_there_yet(self) -> None:
        self.check_whole(self.here.link(("a1", self.base + 1)))

    def test_if_the_changes_are_not_remembered_any_more(self) -> None:
        known = self.here.peers.table.number
        self.many(LOG + 1)
        self.check_whole(self.here.link(("a1", known)))

    def test_if_it_is_asked_for_again(self) -> None:
        far = self.here.link()
        far.took(TABLE)
        far.say(AGAIN)
        self.check_whole(far)


class WhatHasChanged(Case):
    def test_since_the_link_broke(self) -> None:
        self.subscribe("x")
        known = self.here.peers.table.number
        self.subscribe("y", "z")
        parts = self.here.link(("a1", known)).told(TABLE)
        self.assertEqual(self.bounds(parts), [(known, known + 2)])
        self.assertEqual(self.names(parts), ["fy", "fz"])

    def test_nothing_is_said_too(self) -> None:
        """It ends the wait of the other node for our table."""
        far = self.here.link(("a1", self.base))
        self.assertEqual(far.told(TABLE), [{"at": self.base, "to": self.base, "set": []}])

    def test_as_much_as_is_remembered(self) -> None:
        known = self.here.peers.table.number
        self.many(LOG)
        parts = self.here.link(("a1", known)).told(TABLE)
        self.assertEqual(parts[0]["at"], known)
        self.assertEqual(len(self.names(parts)), LOG)

    def test_in_parts_each_of_which_follows_the_one_before(self) -> None:
        known = self.here.peers.table.number
        self.many(2 * PART + 1)
        parts = self.here.link(("a1", known)).told(TABLE)
        steps = [known, known + PART, known + 2 * PART, known + 2 * PART + 1]
        self.assertEqual(self.bounds(parts), list(pairwise(steps)))

    def test_with_the_end_of_each_turn_and_once(self) -> None:
        far = self.here.link()
        far.took(TABLE)
        self.subscribe("x", "y")
        self.here.world.hub.flush()
        parts = far.told(TABLE)
        self.assertEqual(self.bounds(parts), [(self.base, self.base + 2)])
        self.client.send(p.unsubscribe(2, "x"))
        self.assertEqual(far.told(TABLE)[0]["set"], [["fx", 0]])
        self.assertEqual(far.told(TABLE), [])


class OfAnother(Case):
    """What another node tells decides which messages it gets."""

    def setUp(self) -> None:
        super().setUp()
        self.far = self.here.link()

    def tell(self, at: int, to: int, *changes: tuple[str, int]) -> None:
        self.far.say(TABLE, at=at, to=to, number=max(to, 0), set=[list(each) for each in changes])

    def wanted(self, *topics: str) -> list[str]:
        """Those of the topics whose messages go there."""
        found = []
        for topic in topics:
            self.far.took(PUBLISHES)
            self.client.send(p.publish(topic, b"x"))
            found += [topic] if self.far.took(PUBLISHES) else []
        return found

    def confirmed(self) -> int:
        """Up to which number its table is here, as it is told."""
        body = self.far.took(CONFIRM)[-1]
        return read_u64(body, 16)[0]

    def test_changes_in_their_order(self) -> None:
        self.tell(-2, 3, ("fx", 1))
        self.tell(3, 5, ("fy", 1), ("fx", 0))
        self.assertEqual(self.wanted("x", "y"), ["y"])
        self.assertEqual(self.confirmed(), 5)

    def test_a_node_is_up_when_all_of_its_table_is_here(self) -> None:
        """And its retained messages, whichever comes last."""
        self.far.say(DIGESTS, digests=self.here.world.hub.retained.digests)
        self.tell(-2, -1, ("fx", 1))
        self.assertEqual(self.here.state(), "syncing")
        self.tell(-1, 3, ("fy", 1))
        self.assertEqual(self.here.state(), "up")

    def test_a_gap_is_not_passed_over(self) -> None:
        """What was missed may be a filter; all of it is asked for, and this part is not taken."""
        self.tell(-2, 3, ("fx", 1))
        self.tell(4, 5, ("fy", 1))
        self.assertEqual(self.wanted("x", "y"), ["x"])
        self.assertEqual((len(self.far.took(AGAIN)), self.confirmed()), (1, 3))

    def test_nor_is_what_came_already(self) -> None:
        self.tell(-2, 3, ("fx", 1))
        self.tell(2, 3, ("fx", 0))
        self.assertEqual((len(self.far.took(AGAIN)), self.wanted("x")), (1, ["x"]))

    def test_all_of_it_takes_the_place_of_what_was_known(self) -> None:
        self.tell(-2, 3, ("fx", 1), ("fy", 1), ("fz", 1))
        self.tell(-2, 9, ("fy", 1))
        self.assertEqual((self.wanted("x", "y", "z"), self.confirmed()), (["y"], 9))

    def test_of_clients_as_well(self) -> None:
        """Where a session is not any more, nobody has to be asked for it."""
        self.tell(-2, 3, ("cdave", 10), ("cemma", 10))
        self.tell(-2, 4, ("cemma", 10))
        found = [self.here.node.migration.claims.older(name) for name in ("dave", "emma")]
        self.assertEqual(found, [[], ["b"]])

    def test_but_not_before_its_last_part(self) -> None:
        """A filter that is in a later part is wanted all the time."""
        self.tell(-2, 3, ("fx", 1), ("fy", 1), ("fz", 1))
        self.assertEqual(self.confirmed(), 3)
        self.tell(-2, -1, ("fy", 1))
        self.assertEqual(self.wanted("x", "y", "z"), ["x", "y", "z"])
        self.assertEqual(self.far.took(CONFIRM), [])
        self.tell(-1, 9, ("fz", 1))
        self.assertEqual((self.wanted("x", "y", "z"), self.confirmed()), (["y", "z"], 9))

    def test_a_link_that_breaks_half_way_begins_anew(self) -> None:
        self.tell(-2, 3, ("fx", 1))
        self.tell(-2, -1, ("fy", 1))
        self.here.node.lost(self.far, "reset")
        self.far = self.here.link()
        self.tell(3, 4, ("fz", 1))  # it had 3, and nothing of it is stale
        self.assertEqual(self.wanted("x", "z"), ["x", "z"])

    def test_another_process_of_it_is_asked_for_all(self) -> None:
        self.tell(-2, 3, ("fx", 1))
        self.here.node.lost(self.far, "reset")
        self.far = self.here.link(instance="b2")
        self.tell(3, 4, ("fy", 1))
        self.assertEqual(len(self.far.took(AGAIN)), 1)
        self.tell(-2, 2, ("fy", 1))
        self.assertEqual(self.wanted("x", "y"), ["y"])

    def test_who_is_connected_though_another_node_has_told_of_the_session(self) -> None:
        """The changes before what it told come later; by the last one the client is gone."""
        tables = self.here.node.tables
        member = self.here.node.members["b"]
        self.tell(-2, 3, ("fx", 1))
        self.here.node.lost(self.far, "reset")
        tables.expect(member, "cclient", 82, "b1", 10)
        self.far = self.here.link()
        self.tell(3, 6, ("cclient", 81), ("cclient", 83), ("cclient", 82))
        self.assertEqual(member.peer.clients, {"client": 82})


class Suback(Case):
    """Whoever publishes on another node after the SUBACK is heard here."""

    def test_it_waits_until_the_other_node_has_the_filter(self) -> None:
        far = self.here.link()
        far.confirm(self.base)
        self.subscribe("x")
        self.assertEqual(self.client.take(), [])
        far.confirm(self.here.peers.table.number - 1)
        self.assertEqual(self.client.take(), [])
        far.confirm(self.here.peers.table.number)
        self.assertEqual(self.client.next("SUBACK").pid, 1)

    def test_it_does_not_wait_where_all_is_known(self) -> None:
        self.subscribe("x")
        self.client.take()
        far = self.here.link()
        far.confirm(self.here.peers.table.number)
        self.subscribe("x")
        self.assertEqual(self.client.next("SUBACK").pid, 1)

    def test_it_waits_while_all_of_the_table_is_told_anew(self) -> None:
        """Also for a filter that was in it before: the other node has missed something."""
        self.subscribe("x")
        self.client.take()
        far = self.here.link()
        far.confirm(self.here.peers.table.number)
        far.say(AGAIN)
        self.subscribe("x")
        self.assertEqual(self.client.take(), [])
        far.confirm(self.here.peers.table.number)
        self.assertEqual(self.client.next("SUBACK").pid, 1)

    def test_it_does_not_wait_for_a_node_that_was_never_there(self) -> None:
        """The store may remember one that is gone for long."""
        self.here.peers.meet("c")
        self.subscribe("x")
        self.assertEqual(self.client.next("SUBACK").pid, 1)

    def test_it_does_not_wait_for_a_node_from_which_nothing_is_received(self) -> None:
        far = self.here.link()
        far.confirm(self.base)
        self.here.world.now += 4.0  # suspect_s is 3
        self.here.node.tick(self.here.world.now)
        self.assertEqual(self.here.state(), "suspect")
        self.subscribe("x")
        self.assertEqual(self.client.next("SUBACK").pid, 1)

    def test_it_does_not_wait_for_a_link_that_breaks(self) -> None:
        far = self.here.link()
        self.subscribe("x")
        self.here.node.lost(far, "reset")
        self.assertEqual(self.client.next("SUBACK").pid, 1)
