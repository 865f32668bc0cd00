"""Records as bytes: exact, and nothing but ValueError for bytes that are something else."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.core.codec import (
    decode_batch,
    decode_rows,
    decode_session,
    encode_batch,
    encode_rows,
    encode_session,
)
from mhub.core.records import (
    DELIVERY,
    MESSAGE,
    SCHEMA,
    SESSION,
    SUBSCRIPTION,
    Batch,
    ChangeRecord,
    DeliveryRecord,
    MessageRecord,
    Row,
    SessionRecord,
    StoredSession,
    SubscriptionRecord,
)
from tests.core import shapes
from tests.helpers.splits import steady

CODECS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "session": (encode_session, decode_session),
    "rows": (encode_rows, decode_rows),
    "batch": (encode_batch, decode_batch),
}


def plain_session(stored: StoredSession) -> Any:
    subscriptions = [SUBSCRIPTION.values(each) for each in stored.subscriptions]
    return SESSION.values(stored.record), subscriptions, stored.incoming


def plain_rows(rows: list[Row]) -> Any:
    return [(DELIVERY.values(row.record), row.body) for row in rows]


def plain_batch(batch: Batch) -> Any:
    return (
        (batch.number, batch.size_bytes, batch.urgent, batch.dead),
        [MESSAGE.values(each) for each in batch.messages],
        [DELIVERY.values(each) for each in batch.deliveries],
        [(each.sid, each.seq, each.pid, each.released, each.dead) for each in batch.changes],
        (batch.removals, batch.refs, batch.incoming),
        {sid: SESSION.values(each) for sid, each in batch.sessions.items()},
        {key: each and SUBSCRIPTION.values(each) for key, each in batch.subscriptions.items()},
        (batch.retained, batch.notes, batch.ended),
    )


@st.composite
def stored_sessions(draw: st.DrawFn) -> StoredSession:
    stored = StoredSession(draw(shapes.sessions))
    stored.subscriptions = draw(st.lists(shapes.subscriptions, max_size=3))
    stored.incoming = draw(st.lists(shapes.u16, max_size=3))
    return stored


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    records = draw(st.lists(shapes.deliveries, max_size=3))
    return [Row(record, draw(shapes.data)) for record in records]


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    batch = Batch(draw(shapes.u53))
    batch.size_bytes = draw(shapes.u53)
    batch.urgent = draw(st.booleans())
    batch.messages = draw(st.lists(shapes.messages.filter(lambda each: each.refs), max_size=2))
    batch.deliveries = draw(st.lists(shapes.deliveries, max_size=2))
    change = st.builds(ChangeRecord, shapes.u53, shapes.u53, shapes.u16, st.booleans())
    batch.changes = draw(st.lists(change, max_size=2))
    batch.removals = draw(st.lists(st.tuples(shapes.u53, shapes.u53), max_size=2))
    batch.refs = draw(st.dictionaries(shapes.u53, st.integers(-1000, 1000), max_size=2))
    packets = st.tuples(shapes.u53, shapes.u16)
    batch.incoming = draw(st.dictionaries(packets, st.booleans(), max_size=2))
    sessions = draw(st.lists(shapes.sessions, max_size=2))
    batch.sessions = {each.sid: each for each in sessions}
    removed = st.dictionaries(st.tuples(shapes.u53, shapes.text), st.none(), max_size=2)
    subscriptions = draw(st.lists(shapes.subscriptions, max_size=2))
    batch.subscriptions = draw(removed)
    batch.subscriptions |= {(each.sid, each.name): each for each in subscriptions}
    batch.retained = draw(st.dictionaries(shapes.text, shapes.data, max_size=2))
    batch.notes = draw(st.dictionaries(shapes.text, shapes.text, max_size=2))
    batch.ended = draw(st.lists(shapes.u53, max_size=2))
    return batch


def example() -> dict[str, Any]:
    """One of each, with something of everything."""
    record = SessionRecord(1, "pump")
    record.principal = "ü"
    record.expiry_s = 0xFFFFFFFF
    record.ends_at = 1.5
    record.will = b"w"
    record.epoch = (1 << 62) - 1
    record.began = 3
    subscription = SubscriptionRecord(1, "$share/g/a")
    subscription.qos = 2
    subscription.no_local = True
    subscription.identifier = 3
    stored = StoredSession(record)
    stored.subscriptions = [subscription]
    stored.incoming = [9, 0xFFFF]
    delivery = DeliveryRecord(1, 1 << 40)
    delivery.size_bytes = 5
    delivery.qos = 1
    delivery.retain = True
    delivery.ids = b"\x0b\x03"
    delivery.share = "g"
    delivery.pid = 7
    delivery.body = b"m"
    shared = MessageRecord(4, b"s")
    shared.refs = 1
    batch = Batch(2)
    batch.messages = [shared]
    batch.deliveries = [delivery]
    batch.changes = [ChangeRecord(1, 2, 3, True)]
    batch.removals = [(1, 5)]
    batch.refs = {6: -1}
    batch.incoming = {(1, 8): True}
    batch.sessions = {1: record}
    batch.subscriptions = {(1, "b"): None, (1, "$share/g/a"): subscription}
    batch.retained = {"t": b"r"}
    batch.notes = {"n": "x"}
    batch.ended = [9]
    return {"session": stored, "rows": [Row(delivery, b"m")], "batch": batch}


def encoded() -> dict[str, bytes]:
    return {name: CODECS[name][0](value) for name, value in example().items()}


class RoundTripTests(SynchronousTestCase):
    """What goes in comes out, whatever values its fields have."""

    @steady
    @given(stored_sessions())
    def test_session(self, stored: StoredSession) -> None:
        data = encode_session(stored)
        self.assertEqual(plain_session(decode_session(data)), plain_session(stored))

    @steady
    @given(rows())
    def test_rows(self, some: list[Row]) -> None:
        """But for what only the store knows that they come from: each has its message itself."""
        found = plain_rows(decode_rows(encode_rows(some)))
        for row in some:
            row.record.sid = row.record.mid = 0
            row.record.body = row.body
        self.assertEqual(found, plain_rows(some))

    @steady
    @given(batches())
    def test_batch(self, batch: Batch) -> None:
        self.assertEqual(plain_batch(decode_batch(encode_batch(batch))), plain_batch(batch))

    def test_what_no_store_would_look_at_stays_behind(self) -> None:
        batch = Batch(1)
        over = DeliveryRecord(1, 1)
        over.dead = True
        batch.deliveries = [over, DeliveryRecord(1, 2)]
        batch.dead = 1
        changed = ChangeRecord(1, 0, 0, False)
        changed.dead = True
        batch.changes = [changed]
        batch.messages = [MessageRecord(7, b"nobody's")]
        found = decode_batch(encode_batch(batch))
        self.assertEqual([each.seq for each in found.deliveries], [2])
        self.assertEqual((found.dead, found.changes), (0, []))
        self.assertEqual([MESSAGE.values(each) for each in found.messages], [(7, b"", 0)])

    def test_nothing(self) -> None:
        self.assertEqual(decode_rows(encode_rows([])), [])
        self.assertEqual(plain_batch(decode_batch(encode_batch(Batch(1)))), plain_batch(Batch(1)))


class BytesTests(SynchronousTestCase):
    """The form itself, which another node relies on."""

    def test_golden(self) -> None:
        """Bytes that change need another SCHEMA."""
        head = f"{SCHEMA:02x}"
        session = (
            "0100000000000000" + "ffffffff" + "000000000000f83f" + "00000000" + "0000000000000000"
            "ffffffffffffff3f" + "0300000000000000"
            "04000000" + "02000000" + "00000000" + "00000000" + "01000000"
            "70756d70" + "c3bc" + "77"
        )
        subscription = (
            "0100000000000000" + "02" + "0100" + "03000000" + "0a000000" + ("2473686172652f672f61")
        )
        golden = {
            "session": f"53{head}{session}01000000{subscription}020000000900ffff",
            "rows": f"52{head}01000000"
            "0000000000010000" + "05000000" + "01" + "01" + "0700" + "00" + "02000000" + "01000000"
            "0b03" + "67" + "01000000" + "6d",
            "batch": f"42{head}" + "0200000000000000" + "0000000000000000" + "00"
            "01000000" + "0400000000000000" + "01000000" + "01000000" + "73"
            "01000000" + "0100000000000000" + "0000000000010000" + "0000000000000000"
            "05000000" + "01" + "01" + "0700" + "00" + "01000000" + "02000000" + "01000000"
            "6d" + "0b03" + "67"
            "01000000" + "0100000000000000" + "0200000000000000" + "0300" + "01"
            "01000000" + "0100000000000000" + "0500000000000000"
            "01000000" + "0600000000000000" + "ffffffffffffffff"
            "01000000" + "0100000000000000" + "0800" + "01"
            "01000000" + session + "01000000" + subscription +
            "01000000" + "0100000000000000" + "01000000" + "62"
            "01000000" + "01000000" + "74" + "01000000" + "72"
            "01000000" + "01000000" + "6e" + "01000000" + "78"
            "01000000" + "0900000000000000",
        }  # fmt: skip
        for name, data in encoded().items():
            self.assertEqual(data.hex(), golden[name], name)

    def test_cut_off_anywhere(self) -> None:
        for name, data in encoded().items():
            for size in range(len(data)):
                with self.assertRaises(ValueError, msg=f"{name}, {size} bytes"):
                    CODECS[name][1](data[:size])

    def test_a_tail(self) -> None:
        for name, data in encoded().items():
            with self.assertRaises(ValueError, msg=name):
                CODECS[name][1](data + b"\0")

    def test_one_for_another(self) -> None:
        data = encoded()
        for name, (_, decode) in CODECS.items():
            for other in data.keys() - {name}:
                with self.assertRaises(ValueError):
                    decode(data[other])

    def test_another_schema(self) -> None:
        for name, data in encoded().items():
            for schema in (0, SCHEMA - 1, SCHEMA + 1):
                with self.assertRaises(ValueError) as caught:
                    CODECS[name][1](data[:1] + bytes([schema]) + data[2:])
                self.assertIn(f"schema {schema}; this mhub knows {SCHEMA}", str(caught.exception))

    def test_bent_bytes(self) -> None:
        """They are records, or a ValueError."""
        chance = random.Random(7)
        for name, data in encoded().items():
            encode, decode = CODECS[name]
            for _ in range(5000):
                bent = bytearray(data)
                for _ in range(chance.randrange(1, 4)):
                    bent[chance.randrange(2, len(bent))] = chance.choice((0, 1, 3, 0x80, 0xFF))
                try:
                    found = decode(bytes(bent))
                except ValueError:
                    continue
                decode(encode(found))

    @steady
    @given(st.sampled_from(list(CODECS)), st.binary(max_size=200))
    def test_any_bytes(self, name: str, tail: bytes) -> None:
        first = encoded()[name][:2]
        try:
            CODECS[name][1](first + tail)
        except ValueError:
            pass


class BoundsTests(SynchronousTestCase):
    """A value that its field cannot have is no bytes, and bytes with it are no record."""

    def test_values(self) -> None:
        for shape, wrap in (
            (SESSION, StoredSession),
            (DELIVERY, lambda record: [Row(record, b"")]),
        ):
            name = "session" if shape is SESSION else "rows"
            for field in shape.fields:
                if field.kind.high and field.name not in ("sid", "mid"):
                    bad: list[Any] = [-1, field.kind.high + 1]
                elif field.kind.name == "time":
                    bad = [float("nan"), float("inf")]
                else:
                    continue
                for value in bad:
                    record: Any = shapes.blank(shape)
                    setattr(record, field.name, value)
                    with self.assertRaises(ValueError, msg=f"{field.name} {value}"):
                        CODECS[name][0](wrap(record))

    def test_bytes(self) -> None:
        rows = encoded()["rows"]
        for n, byte in ((13, 0x20), (18, 3)):  # the last byte of seq; QoS
            with self.assertRaises(ValueError):
                decode_rows(rows[:n] + bytes([byte]) + rows[n + 1 :])

    def test_half_a_character(self) -> None:
        with self.assertRaises(ValueError):
            encode_session(StoredSession(SessionRecord(1, "\ud800")))
        data = encoded()["session"].replace("ü".encode(), b"\xff\xff")
        with self.assertRaises(ValueError):
            decode_session(data)
