"""The node that claims a session: it gets all of it before the client is let in, or nothing."""

from mhub.cluster import frames
from mhub.cluster.frames import with_data
from mhub.cluster.migration.segments import Segment
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OPENING, OPENING_S, TABLE, Target
from mhub.core.limits import Limits
from tests.cluster.migration.played import Case, Close, Relay, entry
from tests.cluster.migration.rows import RowCase, Table
from tests.core.world import Client
from tests.helpers import packets as p

HELD = 1000
"""The epoch under which node b holds the session of client s."""

SUSPECT_S = 3.0
TAKEOVER_S = 10.0


class TargetCase(Case):
    client: Client

    def claiming(self, durable: bool = False) -> None:
        self.begin("bc", durable)
        self.b.claims("s", HELD, False)
        self.client = self.connect()
        self.assertTrue(self.is_waiting(self.client))

    def arriving(self, durable: bool = False, **options: object) -> None:
        self.claiming(durable)
        self.b.session("s", self.epoch(), HELD, **options)  # type: ignore[arg-type]
        self.assertEqual(self.step(), ARRIVING)

    def opening(self, durable: bool = False) -> None:
        """Node b is gone; node c has not switched yet."""
        self.claiming(durable)
        self.here.lose(self.b)
        self.here.wait(SUSPECT_S)  # it may be back in a moment
        self.assertEqual(self.step(), OPENING)

    def end(self, closed: str = "") -> None:
        """That was all; gates are closed for some nodes, which had their messages on node b."""
        self.b.end("s", self.epoch(), {name: self.segments(name) for name in closed})
        self.here.settle()

    def segments(self, name: str) -> list[Segment]:
        return [] if name == "b" else [Segment("b", f"{name}1", 5, [], 0, True)]

    def step(self) -> str:
        target = self.target()
        return target.state if target is not None else ""

    def present(self) -> bool:
        """What the CONNACK says."""
        return bool(self.client.next("CONNACK").session_present)

    def subscribe(self) -> None:
        self.client.send(p.subscribe(1, ("t", 1)))
        self.here.settle()
        self.client.next("SUBACK")


class RowTests(TargetCase, RowCase):
    table = TABLE

    def machine(self) -> Target | None:
        return self.target()

    def table_of_machine(self) -> Table:
        return TABLE

    def test_every_row_has_a_scenario_that_needs_it(self) -> None:
        self.check_rows(set())

    def test_row_claiming_accept(self) -> None:
        """The session is offered: it shall come."""
        self.claiming()
        with self.row(CLAIMING, "accept"):
            self.b.session("s", self.epoch(), HELD)
        self.assertEqual(self.b.told(frames.ACCEPT), [{"client": "s", "epoch": self.epoch()}])
        self.assertEqual(self.c.kinds(), [])

    def test_row_claiming_nobody(self) -> None:
        """Who had the session has it no more: the client gets a new one."""
        self.claiming()
        with self.row(CLAIMING, "nobody"):
            self.b.table(("cs", 0))
        self.assertFalse(self.present())

    def test_row_claiming_unreachable(self) -> None:
        """Who has it cannot be reached: the nodes that can be are asked to switch."""
        self.claiming()
        self.here.lose(self.b)
        self.here.wait(SUSPECT_S - 0.5)
        with self.row(CLAIMING, "unreachable"):
            self.here.wait(0.5)
        self.assertEqual(len(self.c.told(frames.CUT)), 1)

    def test_row_claiming_timeout(self) -> None:
        """Who has it can be reached, but does not give it."""
        self.claiming()
        self.here.wait(TAKEOVER_S - 0.5)
        with self.row(CLAIMING, "timeout"):
            self.here.wait(0.5)
        self.assertEqual(len(self.c.told(frames.CUT)), 1)

    def test_row_claiming_superseded(self) -> None:
        """The client has connected to another node since."""
        self.claiming()
        with self.row(CLAIMING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)
        self.assertNotIn("cs", self.here.peers.table.names)

    def test_row_arriving_entries(self) -> None:
        """Each portion is answered, when it is taken."""
        self.arriving()
        with self.row(ARRIVING, "entries"):
            self.b.entries("s", self.epoch(), entry(b"1"), entry(b"2"))
        self.assertEqual(self.b.told(frames.MORE), [{"client": "s", "epoch": self.epoch()}])

    def test_row_arriving_pending(self) -> None:
        self.arriving()
        body = with_data(b"", client="s", epoch=self.epoch(), node="c")
        with self.row(ARRIVING, "pending"):
            self.b.give(frames.PENDING, body)
        self.assertEqual(self.b.told(frames.MORE), [{"client": "s", "epoch": self.epoch()}])

    def test_row_arriving_end(self) -> None:
        self.arriving()
        with self.row(ARRIVING, "end"):
            self.b.end("s", self.epoch())
        self.assertTrue(self.present())

    def test_row_arriving_lost(self) -> None:
        """The source is gone: nothing of what came is left, and the claim is a newer one."""
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1"))
        before = self.epoch()
        with self.row(ARRIVING, "lost"):
            self.here.lose(self.b)
        self.assertGreater(self.epoch(), before)
        self.assertEqual(self.hub.queues.size_bytes, 0)

    def test_row_arriving_timeout(self) -> None:
        """The source can be reached, but does not go on: a new session, under a newer epoch."""
        self.arriving()
        before = self.epoch()
        self.here.wait(TAKEOVER_S - 0.5)
        with self.row(ARRIVING, "timeout"):
            self.here.wait(0.5)
        self.assertGreater(self.epoch(), before)
        (said,) = self.c.told(frames.CUT)
        self.assertEqual(said["epoch"], self.epoch())

    def test_row_arriving_superseded(self) -> None:
        """The client has connected elsewhere: the session arrives here first, and then goes on."""
        self.arriving()
        with self.row(ARRIVING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        said, _ = self.c.offered()
        self.assertEqual(said["client"], "s")

    def test_row_opening_marked(self) -> None:
        """All nodes that can be reached have switched to the new session."""
        self.opening()
        self.assertTrue(self.is_waiting(self.client))
        with self.row(OPENING, "marked"):
            self.c.marks("s", self.epoch())
        self.assertFalse(self.present())

    def test_row_opening_timeout(self) -> None:
        """Nobody waits for long for a mark."""
        self.opening()
        self.here.wait(OPENING_S - 0.25)
        self.assertTrue(self.is_waiting(self.client))
        with self.row(OPENING, "timeout"):
            self.here.wait(0.25)
        self.assertFalse(self.present())

    def test_row_opening_again(self) -> None:
        """The client connects once more, with a newer epoch: nodes are asked for that."""
        self.opening()
        before = self.epoch()
        self.c.forget()
        with self.row(OPENING, "again"):
            self.client = self.connect()
        (said,) = self.c.told(frames.CUT)
        self.assertEqual(said["epoch"], self.epoch())
        self.assertGreater(self.epoch(), before)

    def test_row_opening_superseded(self) -> None:
        self.opening()
        with self.row(OPENING, "superseded"):
            self.c.claims("s", self.epoch() + 1000)
        self.assertTrue(self.client.closed)
        self.assertNotIn("s", self.hub.sessions)


class WholeTests(TargetCase):
    def test_the_client_gets_all_in_its_order(self) -> None:
        """In flight with its packet id and DUP, then the queue."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable)
                epoch = self.epoch()
                self.b.entries("s", epoch, entry(b"1", 500), entry(b"2"))
                self.b.entries("s", epoch, entry(b"3"))
                self.assertTrue(self.is_waiting(self.client))
                self.end()
                self.assertTrue(self.present())
                found = self.client.take()
                self.assertEqual([f.payload for f in found], [b"1", b"2", b"3"])
                self.assertEqual((found[0].pid, found[0].dup), (500, True))
                self.assertEqual([f.dup for f in found[1:]], [False] * 2)

    def test_subscriptions_are_routed_with_the_end(self) -> None:
        """Not before: until then what is published is for the source."""
        self.arriving()
        self.assertNotIn("ft", self.here.peers.table.names)
        self.publish(b"before")
        self.end()
        self.assertIn("ft", self.here.peers.table.names)
        self.assertTrue(self.present())
        self.publish(b"behind")
        self.assertEqual(self.client.payloads(), [b"behind"])

    def test_it_joins_shared_groups_with_the_end(self) -> None:
        self.arriving(topics=("$share/g/t",))
        self.assertNotIn("s$share/g/t", self.here.peers.table.names)
        self.end()
        self.assertIn("s$share/g/t", self.here.peers.table.names)

    def test_what_was_open_is_open(self) -> None:
        """QoS 2 both ways: PUBREL is sent again, and a packet id that came is not taken twice."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.arriving(durable, incoming=(9,))
                self.b.entries("s", self.epoch(), entry(b"1", 500, 2, released=True))
                self.end()
                self.assertTrue(self.present())
                self.assertEqual(self.client.next("PUBREL").pid, 500)
                self.b.confirm_all()
                self.client.send(p.publish("t", b"again", 2, 9, dup=True))
                self.here.settle()
                self.assertEqual([packet.type for packet in self.client.take()], ["PUBREC"])

    def test_nothing_is_left_of_half_a_session(self) -> None:
        """Also not in the store, nor after a crash."""
        for is_crash in (False, True):
            with self.subTest(is_crash=is_crash):
                self.arriving(durable=True)
                self.b.entries("s", self.epoch(), entry(b"1", 500, 2), entry(b"2"))
                self.here.settle()
                store = self.here.store
                assert store is not None
                self.assertEqual(len(store.deliveries), 2)
                if is_crash:
                    self.restart()
                else:
                    self.here.lose(self.b)
                self.here.settle()
                own = [sid for sid, each in store.sessions.items() if each.client_id == "s"]
                self.assertEqual((own, store.deliveries), ([], {}))
                self.assertNotIn("s", self.hub.sessions)
                self.assertNotIn("arriving/s", store.notes)

    def test_it_begins_again_under_a_newer_epoch(self) -> None:
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.assertTrue(self.is_waiting(self.client))
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"), entry(b"2"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_also_if_the_source_has_withdrawn_what_it_had(self) -> None:
        """Its session is gone while it was given: there is none to wait for."""
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.b.table(("cs", 0))
        self.assertFalse(self.present())
        self.assertEqual(self.client.payloads(), [])

    def test_a_connect_that_is_given_up_changes_nothing(self) -> None:
        """The session arrives all the same, rests here, and waits for its client."""
        self.arriving()
        self.client.lose()
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertEqual(len(self.b.told(frames.DONE)), 1)
        self.assertEqual(self.here.peers.table.names["cs"] & 1, 0)
        self.client = self.connect()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_and_it_expires_here_as_it_would_have_there(self) -> None:
        self.arriving(expiry_s=5)
        self.client.lose()
        self.end()
        self.here.wait(4.0)
        self.assertIn("s", self.hub.sessions)
        self.here.wait(2.0)
        self.assertNotIn("s", self.hub.sessions)

    def test_a_session_whose_state_was_lost_is_not_present(self) -> None:
        self.arriving()
        self.b.entries("s", self.epoch(), entry(b"1", 500))
        self.b.end("s", self.epoch(), lost=True)
        self.assertFalse(self.present())
        (packet,) = self.client.take()
        self.assertEqual((packet.payload, packet.dup), (b"1", False))

    def test_older_sessions_elsewhere_get_nothing_more_from_here(self) -> None:
        """The source among them: what it gets from now on would be for nobody."""
        self.claiming()
        self.c.claims("s", HELD - 1, False)
        for far in (self.b, self.c):
            far.forget()
        self.b.session("s", self.epoch(), HELD, began=500)
        self.end()
        for far in (self.b, self.c):
            self.assertEqual(far.records(), [Close("s", 500)])


class OwnChannelTests(TargetCase):
    """What was published on the target itself is in its channel to the source."""

    def published(self, *payloads: bytes) -> int:
        """For the session on node b; the number in front of the first."""
        self.b.table(("ft", 3))
        before = self.peer("b").outgoing.last_n
        self.publish(*payloads)
        self.assertEqual(self.peer("b").outgoing.last_n, before + len(payloads))
        return before

    def end_at(self, position: int, early: tuple[int, ...] = ()) -> list[bytes]:
        """END with a position in the channel from here; what the client gets."""
        self.b.entries("s", self.epoch(), entry(b"entry"))
        gates = {"a": [self.segment("b", position, early)], "b": []}
        self.b.end("s", self.epoch(), gates)
        self.here.settle()
        self.assertTrue(self.present())
        return self.client.payloads()

    def test_what_is_behind_the_position_is_delivered_behind_the_entries(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.claiming(durable)
                before = self.published(b"1", b"2", b"3")
                self.b.session("s", self.epoch(), HELD)
                self.assertEqual(self.end_at(before + 1), [b"entry", b"2", b"3"])

    def test_what_is_published_while_it_arrives_as_well(self) -> None:
        self.claiming()
        before = self.published(b"1")
        self.b.session("s", self.epoch(), HELD)
        self.publish(b"2")
        self.assertEqual(self.end_at(before + 1), [b"entry", b"2"])
        self.publish(b"3")
        self.assertEqual(self.client.payloads(), [b"3"])

    def test_not_what_came_there_early(self) -> None:
        self.claiming()
        before = self.published(b"1", b"2", b"3")
        self.b.session("s", self.epoch(), HELD)
        self.assertEqual(self.end_at(before, (before + 2,)), [b"entry", b"1", b"3"])

    def test_of_another_life_all_of_it(self) -> None:
        """The source has heard of an earlier channel of this node: its position says nothing."""
        self.claiming()
        self.published(b"1", b"2")
        self.b.session("s", self.epoch(), HELD)
        segment = self.segment("b", 1 << 40)._replace(channel_epoch="another")
        self.b.end("s", self.epoch(), {"a": [segment], "b": []})
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_nodes_where_the_session_was_before_may_confirm(self) -> None:
        """They are told that this node has switched; the source hears it with DONE."""
        self.claiming()
        self.b.session("s", self.epoch(), HELD)
        gates = {"a": [self.segment("c", 0), self.segment("b", 0, since=HELD)], "b": []}
        self.b.end("s", self.epoch(), gates)
        self.here.settle()
        self.assertEqual(self.c.told(frames.SWITCHED), [{"client": "s", "epoch": self.epoch()}])
        self.assertEqual(self.b.told(frames.SWITCHED), [])

    def test_what_the_source_sends_directly_meanwhile_comes_behind_it(self) -> None:
        """It was published there after the cut."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.claiming(durable)
                before = self.published(b"1")
                self.b.session("s", self.epoch(), HELD)
                self.b.direct("s", self.epoch(), b"2", b"3")
                found = self.end_at(before)
                self.assertEqual(found, [b"entry", b"1", b"2", b"3"])

    def test_and_what_it_sends_until_it_switches(self) -> None:
        self.arriving()
        self.end("b")
        self.assertTrue(self.present())
        self.b.direct("s", self.epoch(), b"1")
        self.b.marks("s", self.epoch())
        self.b.publish(b"2")
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_nothing_direct_is_left_of_a_session_that_did_not_arrive(self) -> None:
        """The source has it, and gives it as an entry next time."""
        self.arriving()
        self.b.direct("s", self.epoch(), b"1")
        self.here.lose(self.b)
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_direct_messages_of_others_while_it_arrives_are_not_for_it(self) -> None:
        """A node switches to a session that is here, and to no other."""
        self.arriving()
        self.c.direct("s", self.epoch(), b"1")
        self.b.direct("s", self.epoch() - 1, b"2")
        self.b.direct("other", self.epoch(), b"3")
        self.end()
        self.assertTrue(self.present())
        self.assertEqual(self.client.payloads(), [])

    def test_not_more_than_a_queue_may_have(self) -> None:
        self.claiming()
        self.here.node.limits = lambda name: Limits(max_queued_messages=2)
        self.b.session("s", self.epoch(), HELD)
        self.client.lose()
        self.b.direct("s", self.epoch(), b"1", b"2", b"3")
        self.end()
        self.assertEqual(self.hub.sessions["s"].queued(), 2)
        self.assertEqual(self.hub.stats.dropped_queue_full, 1)


class CutTests(TargetCase):
    """When the session is here, all who publish for it are asked to switch."""

    def ended(self, durable: bool = False) -> None:
        self.arriving(durable, began=500)
        for far in (self.b, self.c):
            far.forget()
        self.end("bc")

    def test_with_the_segments_of_their_gates(self) -> None:
        self.ended()
        (said,) = self.c.told(frames.CUT)
        expected = {
            "client": "s",
            "epoch": self.epoch(),
            "began": 500,
            "to": "a",
            "table": ["a1", self.here.peers.table.number],
            "filters": ["t"],
            "segments": [["b", "c1", 5, [], 0, True]],
            "held": self.epoch(),
        }
        self.assertEqual({**said, **expected}, said)

    def test_the_source_as_well(self) -> None:
        """Its gate has no segments: what is here is behind its own mark."""
        self.ended()
        (said,) = self.b.told(frames.CUT)
        self.assertEqual(said["segments"], [])

    def test_they_know_of_the_subscriptions_first(self) -> None:
        """Else what they publish behind the mark would be for nobody."""
        self.ended()
        self.assertEqual(self.c.sent(frames.TABLE, frames.CUT), [frames.TABLE, frames.CUT])

    def test_the_source_knows_of_them_before_done(self) -> None:
        """DONE says up to where it must know the table."""
        self.ended()
        kinds = self.b.sent(frames.TABLE, frames.DONE)
        self.assertEqual(kinds, [frames.TABLE, frames.DONE])
        (said,) = self.b.told(frames.DONE)
        self.assertEqual(said["table"], self.here.peers.table.number)

    def test_where_no_gate_is_closed_nobody_is_asked(self) -> None:
        self.arriving()
        self.end()
        self.assertEqual((self.c.told(frames.CUT), self.b.told(frames.CUT)), ([], []))

    def test_a_node_that_is_away_is_asked_when_it_is_back(self) -> None:
        """Before it has our table, and before anything is confirmed."""
        self.arriving()
        self.here.lose(self.c)
        self.end("bc")
        self.c = self.here.meet("c")
        kinds = self.c.sent(frames.CUT, frames.TABLE, frames.CONFIRM)
        self.assertEqual(kinds[0], frames.CUT)
        (said,) = self.c.told(frames.CUT)
        self.assertEqual(said["segments"], [["b", "c1", 5, [], 0, True]])

    def test_one_that_has_switched_is_not_asked_again(self) -> None:
        self.ended()
        self.c.marks("s", self.epoch())
        self.here.lose(self.c)
        self.c = self.here.meet("c")
        self.assertEqual(self.c.told(frames.CUT), [])

    def test_after_a_restart_those_that_have_not_are(self) -> None:
        self.ended(durable=True)
        self.b.marks("s", self.epoch())
        epoch = self.epoch()
        self.here.settle()
        self.restart()
        self.meet("bc")
        (said,) = self.c.told(frames.CUT)
        self.assertEqual((said["epoch"], said["to"]), (epoch, "a"))
        self.assertEqual(said["segments"], [["b", "c1", 5, [], 0, True]])
        self.assertEqual(self.b.told(frames.CUT), [])


class SafeTests(TargetCase):
    def test_done_and_cut_are_said_when_all_is_stored(self) -> None:
        """And the client knows no sooner than that."""
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.here.settle()
        self.b.end("s", self.epoch(), {"c": self.segments("c")})
        self.assertEqual((self.b.told(frames.DONE), self.c.told(frames.CUT)), ([], []))
        self.assertEqual(self.client.take(), [])
        self.here.settle()
        self.assertEqual(len(self.b.told(frames.DONE)), 1)
        self.assertEqual(len(self.c.told(frames.CUT)), 1)
        self.assertTrue(self.present())

    def test_without_a_store_at_once(self) -> None:
        self.arriving()
        self.b.end("s", self.epoch(), {"c": self.segments("c")})
        self.assertEqual(len(self.b.told(frames.DONE)), 1)
        self.assertEqual(len(self.c.told(frames.CUT)), 1)
        self.assertTrue(self.present())

    def test_a_crash_before_that_leaves_nothing(self) -> None:
        """The source has heard nothing: the session is there."""
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.here.settle()
        self.b.end("s", self.epoch())
        self.restart()
        self.assertNotIn("s", self.hub.sessions)

    def test_it_is_whole_after_a_crash(self) -> None:
        self.arriving(durable=True)
        self.b.entries("s", self.epoch(), entry(b"1", 500, 2), entry(b"2"))
        self.end("c")
        self.c.direct("s", self.epoch(), b"3")
        self.c.marks("s", self.epoch())
        self.c.publish(b"4")
        self.here.settle()
        self.restart()
        self.meet("bc")
        self.client = self.connect()
        self.assertTrue(self.present())
        found = self.client.take()
        self.assertEqual([f.payload for f in found], [b"1", b"2", b"3", b"4"])
        self.assertEqual((found[0].pid, found[0].dup), (500, True))


class NewSessionTests(TargetCase):
    """Who has the session cannot be reached."""

    def test_nodes_that_can_be_reached_are_asked_without_segments(self) -> None:
        """What is for the older session stays where it is."""
        self.opening()
        (said,) = self.c.told(frames.CUT)
        self.assertEqual((said["client"], said["epoch"], said["to"]), ("s", self.epoch(), "a"))
        self.assertEqual((said["segments"], said["filters"]), ([], []))
        self.assertEqual(said["began"], self.epoch())
        self.assertEqual(said["old"], ["b"])

    def test_this_node_sends_nothing_more_to_the_older_one(self) -> None:
        self.opening()
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.assertIn(Close("s", self.epoch()), self.b.records())

    def test_what_is_published_behind_a_mark_belongs_to_the_new_one(self) -> None:
        self.opening()
        self.c.marks("s", self.epoch())
        self.assertFalse(self.present())
        self.subscribe()
        self.c.publish(b"1")
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_what_is_published_before_a_mark_belongs_to_the_older_one(self) -> None:
        """It is on its way to that one, which relays it."""
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.opening(durable)
                self.here.wait(OPENING_S)
                self.assertFalse(self.present())
                self.subscribe()
                self.c.publish(b"before")
                self.c.marks("s", self.epoch())
                self.c.publish(b"behind")
                self.here.settle()
                self.assertEqual(self.client.payloads(), [b"behind"])

    def test_a_node_that_joins_meanwhile_is_asked_too(self) -> None:
        self.opening()
        d = self.here.meet("d")
        (said,) = d.told(frames.CUT)
        self.assertEqual((said["epoch"], said["segments"]), (self.epoch(), []))
        self.c.marks("s", self.epoch())
        self.assertTrue(self.is_waiting(self.client))
        d.marks("s", self.epoch())
        self.assertFalse(self.present())

    def test_a_node_from_which_nothing_is_received_is_not_waited_for(self) -> None:
        self.begin("bcd")
        self.b.claims("s", HELD, False)
        self.client = self.connect()
        self.here.lose(self.b)
        self.here.wait(SUSPECT_S, silent="d")
        self.c.marks("s", self.epoch())
        self.assertFalse(self.present())

    def test_the_node_with_the_older_one_is_told_when_it_is_back(self) -> None:
        """It offers what it has, and is told that there is a newer one: it relays."""
        self.opening()
        self.c.marks("s", self.epoch())
        self.assertFalse(self.present())
        self.b = self.here.meet("b", ("cs", HELD << 1))
        self.assertEqual(self.b.sent(frames.CUT, frames.TABLE)[0], frames.CUT)
        self.b.session("s", self.epoch(), HELD)
        (said,) = self.b.told(frames.REFUSED)
        self.assertEqual((said["epoch"], said["merge"]), (self.epoch(), True))
        self.b.relays("s", b"1", b"2")
        self.here.settle()
        self.assertEqual(self.client.payloads(), [b"1", b"2"])

    def test_the_client_is_told_until_it_has_read_it(self) -> None:
        """The CONNACK was lost, perhaps: the next one says Session Present 0 as well."""
        self.opening()
        self.c.marks("s", self.epoch())
        self.assertFalse(self.present())
        self.client.lose()
        self.client = self.connect()
        self.assertFalse(self.present())

    def test_a_connect_that_was_given_up_opens_nothing(self) -> None:
        """What others have stays as it is."""
        self.claiming()
        self.here.lose(self.b)
        self.client.lose()
        self.c.forget()
        self.here.wait(TAKEOVER_S + 1.0)
        self.assertNotIn("s", self.hub.sessions)
        self.assertNotIn("cs", self.here.peers.table.names)
        self.assertEqual(self.c.kinds(), [])

    def test_entries_that_came_for_it_meanwhile_are_not_lost(self) -> None:
        """They were relayed while nobody knew which session would be the client's."""
        self.opening()
        self.c.relays("s", b"1")
        self.c.marks("s", self.epoch())
        self.assertFalse(self.present())
        self.here.settle()
        self.assertEqual(self.client.payloads(), [b"1"])

    def test_nor_if_the_claim_comes_to_nothing(self) -> None:
        """Then they go to the node that has the session."""
        self.claiming()
        self.c.relays("s", b"1")
        self.c.claims("s", self.epoch() + 1000)
        self.here.settle()
        self.assertEqual(self.c.records(), [Relay("s", [b"1"])])
