"""Whose fault it is: frames that cannot be read are the peer's, whatever else is raised is ours."""

import json
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.migration.pending import read_pending
from mhub.cluster.migration.reading import read_rows, read_session
from mhub.cluster.migration.switches import Cut
from mhub.cluster.said import Said
from mhub.core import records
from mhub.core.channel_records import (
    Entry,
    Origin,
    control_of,
    read_control,
    read_special,
    record_of,
    special_of,
)
from mhub.core.codec import encode_rows
from mhub.core.delivery import Subscription
from mhub.core.records import DeliveryRecord, Row
from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import u32
from mhub.wire.publish import Publish, topic_field
from tests.cluster import sim_history
from tests.cluster.bending import BentSimulation, bend, bend_bytes
from tests.cluster.far import Far, Here
from tests.cluster.sim_clients import Subscriber
from tests.cluster.sim_plan import make
from tests.cluster.simulation import SimNode, Simulation
from tests.helpers.packets import Packet

CONTROLLED = (1).to_bytes(8, "big") + b"\x03\x00\x01\x00\x00\x00\x01s"
"""The begin of a frame with a control record about client s, whose body is a letter."""


def relayed(body: bytes) -> bytes:
    """A frame with late entries for client s."""
    return (1).to_bytes(8, "big") + control_of(Publish(b"s", b"R" + body, 1, False))


class WhoseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.here = Here()
        self.far = self.here.link()
        self.crashed: list[tuple[str, Exception]] = []
        self.here.world.diary.crashed = (  # type: ignore[method-assign]
            lambda what, error: self.crashed.append((what, error))
        )

    def test_what_cannot_be_read_closes_the_link_with_the_reason(self) -> None:
        for kind, body, text in (
            (frames.TABLE, b"[", "a frame that is not JSON"),
            (frames.TABLE, b"[]", "a frame that is not a JSON object"),
            (frames.TABLE, pack(to=1, set=[]), "it has no 'at'"),
            (frames.TABLE, pack(at="1", to=1, set=[]), "its 'at' is not a number"),
            (frames.TABLE, pack(at=0, to=1, set=[["f#/#", 1]]), "'#' must stand alone"),
            (frames.PONG, b'{"at":NaN}', "its 'at' is not a number"),
            (frames.MEMBERS, pack(members={"c": 5}), "its 'members' is not a text"),
            (frames.CONFIRM, b"1234", "ends inside an eight-byte integer"),
            (frames.PUBLISHES, bytes(8) + b"\x30\x05", "is cut off"),
            (frames.ENTRIES, b'{"client":"s"}\n', "it has no 'epoch'"),
            (frames.PUBLISHES, CONTROLLED + b"X", "of an unknown kind"),
            (frames.PUBLISHES, CONTROLLED + b"R", "ends inside a four-byte integer"),
            (frames.PUBLISHES, relayed(u32(9) + b"alice"), "late entries without their user"),
            (frames.PUBLISHES, relayed(u32(1) + b"\xff"), "UTF-8"),
            (frames.PUBLISHES, relayed(u32(5) + b"alice"), "invalid messages of a session"),
        ):
            with self.subTest(kind=kind, body=body):
                self.setUp()
                self.far.give(kind, body)
                expected = f"a frame of kind {kind} cannot be understood: "
                self.assertTrue(self.far.closed.startswith(expected), self.far.closed)
                self.assertIn(text, self.far.closed)
                self.assertEqual(self.here.node.members["b"].state, "down")
                self.assertEqual(self.crashed, [])

    def test_a_defect_is_reported_as_ours(self) -> None:
        """With what it was, for a traceback; the next link begins where both sides are."""
        for error in (KeyError("x"), TypeError("x"), ValueError("x"), IndexError("x"), OSError()):
            with self.subTest(error=error):
                self.setUp()

                def fails(*args: object, error: Exception = error) -> None:
                    raise error

                self.patch(self.here.node.tables, "_learn", fails)
                self.far.say(frames.TABLE, at=-2, to=1, number=1, set=[["ft", 1]])
                self.assertEqual(self.crashed, [("a frame of kind 4 from node b", error)])
                self.assertEqual(self.far.closed, "a defect of node a, whose log says more")
                self.assertEqual(self.here.node.members["b"].state, "down")

    def test_the_frames_of_other_nodes_are_handled_as_before(self) -> None:
        other = Far(self.here, "c")
        self.here.meet(other)
        self.far.give(99, b"what a newer release may have")
        self.assertEqual((self.far.closed, self.crashed), ("", []))
        self.far.give(frames.MEMBERS, b"?")
        self.assertNotEqual(self.far.closed, "")
        self.assertEqual((other.closed, self.here.node.members["c"].link), ("", other))

    def test_after_a_defect_amid_messages_the_rest_comes_again(self) -> None:
        came: list[bytes] = []

        class Defective:
            """Decides what is for a session, and fails once."""

            def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
                came.append(message.payload)
                if len(came) == 2:
                    raise KeyError("a defect")
                return True

        self.here.peers.suback_waits = False
        client = self.here.world.client("s")
        client.subscribe("t")
        client.session.intake = Defective()
        records = [b"\x01\x30\x05\x00\x01t0" + b"%d" % n for n in range(3)]
        self.far.give(frames.PUBLISHES, (1).to_bytes(8, "big") + b"".join(records))
        self.assertEqual(came, [b"00", b"01"])
        again = self.here.link()
        (said,) = again.told(frames.RESUME)
        self.assertLess(said["received"][1], 3, "what was not taken is not confirmed")


class ReaderTests(SynchronousTestCase):
    """Whatever bytes they get, readers raise ProtocolFault and nothing else."""

    def bodies(self) -> dict[int, list[bytes]]:
        """Frames of each kind, from some histories of a cluster."""
        found: dict[int, list[bytes]] = {}

        class Listening(Simulation):
            def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
                kept = found.setdefault(kind, [])
                if len(kept) < 20:
                    kept.append(body)
                return [(kind, body)]

        self.patch(sim_history, "Simulation", Listening)
        for seed in range(3):
            sim_history.play(make(seed, ("move", "cut", "split")))
        return found

    def reads(self, kind: int, body: bytes) -> None:
        head, _, data = body.partition(b"\n")
        if kind == frames.CUT:
            Cut(body)
        elif kind == frames.SESSION:
            read_session(data)
        elif kind == frames.ENTRIES:
            read_rows(data)
        elif kind == frames.PENDING:
            read_pending("s", data, 0.0)
        elif kind in (frames.PUBLISHES, frames.RETAINED):
            pos = 8 if kind == frames.PUBLISHES else 0
            while pos < len(body):
                if body[pos] == 3:
                    _, _, pos = read_control(body, pos)
                else:
                    _, pos = read_special(body, pos, 0.0)
        else:
            said = Said(head)
            for name in ("client", "epoch", "at", "set", "digests", "members", "received"):
                for read in (
                    said.text,
                    said.number,
                    said.timestamp,
                    said.real,
                    said.flag,
                    said.texts,
                    said.numbers,
                    said.pair,
                    said.pairs,
                    said.by_name,
                ):
                    try:
                        read(name)
                    except ProtocolFault:
                        pass

    def test_nothing_else_leaves_them(self) -> None:
        random = Random(1)
        bodies = self.bodies()
        wanted = {frames.SESSION, frames.ENTRIES, frames.CUT, frames.PUBLISHES, frames.TABLE}
        self.assertLessEqual(wanted, bodies.keys())
        refused = 0
        for kind, kept in bodies.items():
            for body in kept:
                if kind != frames.CONFIRM and body[:8] != bytes(8):
                    self.reads(kind, body)
                for _ in range(60):
                    try:
                        self.reads(kind, bend(random, body))
                    except ProtocolFault:
                        refused += 1
        self.assertGreater(refused, 1000)

    def message(self) -> Publish:
        message = Publish(b"t", b"x", 1, False)
        message.topic = "t"
        message.topic_field = topic_field(b"t")
        return message

    def test_copies_and_direct_messages(self) -> None:
        """Their texts are read later, where there is nobody to blame any more."""
        wire = record_of(self.message(), True, None, 0.0)
        good = Origin("c", "c1", 7, '{"s":5,"r":-1}')
        for origin, via, is_right in (
            (good, "c\nc1\n7", True),
            (good._replace(controls=""), "", True),
            (good._replace(node="c\nc"), "", False),
            (good._replace(controls="["), "", False),
            (good._replace(controls="[5]"), "", False),
            (good._replace(controls='{"s":null}'), "", False),
            (good, "c\nc1", False),
            (good, "c\nc1\nx", False),
            (good, "c\nc1\n" + "9" * 5000, False),
        ):
            with self.subTest(origin=origin, via=via):
                entry = Entry(0, self.message(), True, None)
                entry.direct, entry.session_epoch, entry.via = "s", 5, via
                body = special_of(entry, origin) + wire
                if is_right:
                    found, pos = read_special(body, 0, 0.0)
                    self.assertEqual((found.origin, found.via, pos), (origin, via, len(body)))
                else:
                    self.assertRaises(ProtocolFault, read_special, body, 0, 0.0)
        random = Random(2)
        for _ in range(3000):
            try:
                read_pending("s", bend_bytes(random, special_of(entry, good) + wire), 0.0)
            except ProtocolFault:
                pass

    def test_entries(self) -> None:
        """Messages in them are read later, or stored as they are."""
        body = records.message(self.message(), 0.0)
        empty = records.message(Publish(b"", b"x", 1, False), 0.0)
        wildcard = records.message(Publish(b"t/#", b"x", 1, False), 0.0)
        for damaged in (b"", body[:-2], empty, wildcard, body[:1] + b"\xff" * len(body)):
            rows = [Row(DeliveryRecord(1, 1), body), Row(DeliveryRecord(1, 2), damaged)]
            self.assertRaises(ProtocolFault, read_rows, encode_rows(rows))
        data = encode_rows([Row(DeliveryRecord(1, 1), body)])
        self.assertEqual(len(read_rows(data)), 1)
        random = Random(3)
        for _ in range(3000):
            try:
                read_rows(bend_bytes(random, data))
            except ProtocolFault:
                pass

    def test_numbers_and_texts(self) -> None:
        for value in (True, 1.0, "1", None, -1, 1 << 63, [1]):
            self.assertRaises(ProtocolFault, Said(pack(n=value)).number, "n")
        for text in (None, 1, ["a"], "\ud800"):
            body = json.dumps({"t": text}).encode()
            self.assertRaises(ProtocolFault, Said(body).text, "t")
        self.assertEqual(Said(pack(t="\u00e9\n", n=0)).text("t"), "\u00e9\n")
        self.assertRaises(ProtocolFault, Said(pack(n=1 << 62)).timestamp, "n")
        self.assertEqual(Said(pack(n=(1 << 62) - 1)).timestamp("n"), (1 << 62) - 1)


class BentTests(SynchronousTestCase):
    """Nodes that get bent frames in all their states close links, and have no defect."""

    def test_no_defect_comes_to_light(self) -> None:
        on_packet = Subscriber.on_packet

        def reads(subscriber: Subscriber, packet: Packet) -> None:
            try:
                on_packet(subscriber, packet)
            except ValueError:
                pass  # a payload was bent

        self.patch(sim_history, "Simulation", BentSimulation)
        self.patch(Subscriber, "on_packet", reads)
        bent = closed = 0
        for seed in range(10):
            history = sim_history.History(make(seed, ("move", "cut", "crash")))
            sim = history.sim
            assert isinstance(sim, BentSimulation)
            try:
                history.play()  # what was bent may be lost: the verdict says nothing
            except AssertionError as error:
                if "a defect hit" in str(error):
                    raise
            bent += sim.bent
            closed += len([line for line in sim.history if "cannot be understood" in line])
        self.assertGreater(bent, 500)
        self.assertGreater(closed, 300)
