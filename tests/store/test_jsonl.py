"""A store as lines of JSON: nothing is lost on the way, and no bad line gets into a store."""

import base64
import io
import json
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.directory import check_entry
from mhub.access.rows import parse_row
from mhub.core import records
from mhub.core.records import Batch, SessionRecord, message
from mhub.core.registry import entry_message
from mhub.store.command import Progress, check, describe, export_to, import_from
from mhub.store.contract import StoreError
from mhub.store.jsonl import (
    HEADER,
    KINDS,
    PORTION,
    REQUIRED,
    BadLine,
    Survey,
    batches,
    from_line,
    to_line,
)
from mhub.store.memory import MemoryStore
from mhub.wire.publish import Publish
from tests.helpers.splits import steady
from tests.store import suite
from tests.store.suite import batch, delivery, portrait, session, subscription

SIDS = st.integers(1, 5)
TIMES = st.floats(0, 1e10)
BODY = f'"{32 * "A"}"'  # a message without anything
SESSION = b'{"kind": "session", "sid": 1, "client_id": "a"}'
U32 = st.integers(0, 0xFFFFFFFF)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Messages, and now and then one with a sign that no field stands for."""
    topic = draw(st.text(max_size=8)).encode()
    publish = Publish(
        topic, draw(st.binary(max_size=9)), draw(st.integers(0, 2)), draw(st.booleans())
    )
    publish.properties = draw(st.binary(max_size=9))
    publish.expiry_s = draw(st.integers(-1, 0x7FFFFFFF))
    publish.expiry_at = draw(st.integers(-1, 100))
    publish.expires_at = draw(TIMES)
    publish.hlc = draw(st.sampled_from((0, 1, (1 << 64) - 1)))
    body = message(publish, 0.0)
    return body[:1] + b"\x01" + body[2:] if draw(st.integers(0, 4)) == 0 else body


def _session(sid: int, **fields: Any) -> SessionRecord:
    return suite._filled(SessionRecord(sid, f"client {sid}"), **fields)  # type: ignore[no-any-return]


SESSIONS = st.builds(
    _session,
    SIDS,
    principal=st.text(),
    listener=st.text(max_size=8),
    mount=st.text(max_size=8),
    expiry_s=st.integers(1, 0xFFFFFFFF),  # 0 ends with the process, and so with open()
    ends_at=TIMES,
    will=st.just(b"") | bodies(),
    will_delay_s=U32,
    will_at=TIMES,
    epoch=st.integers(0, (1 << 62) - 1),
    began=st.integers(0, (1 << 62) - 1),
)
SUBSCRIPTIONS = st.builds(
    subscription,
    SIDS,
    st.text(min_size=1, max_size=9),
    qos=st.integers(0, 2),
    no_local=st.booleans(),
    retain_as_published=st.booleans(),
    identifier=st.integers(0, 0xFFFFFFF),
)


KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@st.composite
def contents(draw: st.DrawFn) -> Batch:
    """What a hub could have stored."""
    made = Batch(1)
    made.sessions = {each.sid: each for each in draw(st.lists(SESSIONS))}
    sids = sorted(made.sessions)
    internal = draw(st.sets(SIDS))  # those that are no client's
    for sid in internal & made.sessions.keys():
        made.sessions[sid].client_id = f"\0peer/{sid}"
    for each in draw(st.lists(SUBSCRIPTIONS)):
        if each.sid in made.sessions:
            made.subscriptions[each.sid, each.name] = each
    made.retained = draw(st.dictionaries(st.text(), bodies(), max_size=4))
    for key, value in draw(st.dictionaries(KEYS, st.text(), max_size=4)).items():
        entry = entry_message(key, value, draw(st.integers(1, (1 << 62) - 1)))
        made.retained[entry.topic] = records.message(entry, 0.0)
    made.notes = draw(st.dictionaries(st.text(), st.text(min_size=1), max_size=4))
    if not sids:
        return made
    for mid in draw(st.sets(st.integers(1, (1 << 53) - 1), max_size=4)):
        made.messages.append(suite.message(mid, 0))
        made.messages[-1].body = draw(bodies())
    places = draw(
        st.sets(st.tuples(st.sampled_from(sids), st.integers(1, (1 << 53) - 1)), max_size=9)
    )
    for pid, (sid, seq) in enumerate(places, 1):
        shared = draw(st.none() | st.sampled_from(made.messages)) if made.messages else None
        if shared is not None:
            shared.refs += 1
        made.deliveries.append(
            delivery(
                sid,
                seq,
                shared.mid if shared is not None else 0,
                body=b"" if shared is not None else draw(bodies()),
                size_bytes=draw(U32),
                qos=draw(st.integers(0, 2)),
                retain=draw(st.booleans()),
                ids=draw(st.binary(max_size=5)),
                share=draw(st.text(max_size=5)),
                pid=1 if sid in internal else pid * draw(st.integers(0, 1)),
                released=draw(st.booleans()),
            )
        )
    for packet in draw(st.sets(st.tuples(st.sampled_from(sids), st.integers(1, 0xFFFF)))):
        made.incoming[packet] = True
    return made


class JsonlCase(SynchronousTestCase):
    def done(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine brings that waits for nobody."""
        return self.successResultOf(Deferred.fromCoroutine(work))

    def store(self, *of: Batch) -> MemoryStore:
        store = MemoryStore()
        for each in of:
            self.done(store.commit(each))
        return store

    def exported(self, store: MemoryStore) -> bytes:
        file = io.BytesIO()
        self.done(export_to(file, store, Progress(io.StringIO())))
        return file.getvalue()

    def do_import(self, data: bytes, store: MemoryStore) -> Survey:
        file = io.BytesIO(data)
        survey = Survey(file, "x.jsonl")
        self.done(import_from(file, "x.jsonl", survey, store, Progress(io.StringIO())))
        return survey

    def assertBad(self, lines: str | bytes, expected: str) -> None:
        """The lines, after a good first one, cannot be used."""
        data = lines if isinstance(lines, bytes) else lines.encode("utf-8", "surrogatepass")
        error = self.assertRaises(BadLine, Survey, io.BytesIO(HEADER + data), "x.jsonl")
        self.assertEqual(str(error), f"x.jsonl:{expected}")


class RoundTripTests(JsonlCase):
    @steady
    @given(contents())
    def test_all_comes_back(self, made: Batch) -> None:
        """Sessions with all they have, and retained messages; nothing is wrong with the copy."""
        store = self.store(made)
        lines = self.exported(store)
        copy = MemoryStore()
        self.do_import(lines, copy)
        expected, found = self.done(portrait(store)), self.done(portrait(copy))
        for highest in ("last_sid", "last_mid"):  # those of what is gone are not in an export
            del expected[highest], found[highest]
        self.assertEqual(found, expected)
        self.assertEqual(sorted(self.exported(copy).splitlines()), sorted(lines.splitlines()))

    def test_readable(self) -> None:
        """A person can read it, and what is as usual is not there."""
        store = self.store(
            batch(
                session(1, will=suite.body("gone", "w")),
                subscription(1, "a/#", qos=1),
                suite.message(7, 1, "é"),
                delivery(1, 3, 7),
                incoming={(1, 5): True},
                retained={"t": suite.body("x", "t", 12.5)},
                notes={"n\0": "\0é"},
            )
        )
        for entry in (entry_message("user/é", '{"x":1}', 1 << 61), entry_message("ban/a", "", 5)):
            store.retained[entry.topic] = records.message(entry, 0.0)
        self.assertEqual(
            [json.loads(line) for line in self.exported(store).splitlines()],
            [
                {"mhub": "store", "schema": 4},
                {"kind": "message", "mid": 7, "body": {"topic": "t", "qos": 1, "payload": "é"}},
                {"kind": "delivery", "sid": 1, "seq": 3, "mid": 7, "size_bytes": 10, "qos": 1},
                {"kind": "incoming", "sid": 1, "pid": 5},
                {
                    "kind": "session",
                    "sid": 1,
                    "client_id": "client 1",
                    "expiry_s": 60,
                    "will": {"topic": "w", "qos": 1, "payload": "gone"},
                },
                {"kind": "subscription", "sid": 1, "name": "a/#", "qos": 1},
                {
                    "kind": "retained",
                    "topic": "t",
                    "body": {"topic": "t", "qos": 1, "expires_at": 12.5, "payload": "x"},
                },
                {
                    "kind": "registry",
                    "key": "user/é",
                    "hlc": "2305843009213693952",
                    "value": '{"x":1}',
                },
                {"kind": "registry", "key": "ban/a", "hlc": "5"},
                {"kind": "note", "name": "n\0", "text": "\0é"},
            ],
        )

    def test_the_hubs_own_sessions(self) -> None:
        """With a client id that no client can have, and all they keep in flight with one id."""
        line = [delivery(1, seq, pid=1) for seq in (1, 5, 1 << 50)]
        store = self.store(batch(session(1, client_id="\0peer/b/1234"), *line))
        copy = MemoryStore()
        self.do_import(self.exported(store), copy)
        self.assertEqual(self.done(portrait(copy)), self.done(portrait(store)))
        self.assertEqual(copy.sessions[1].client_id, "\0peer/b/1234")

    def test_a_file_of_an_earlier_version(self) -> None:
        lines = self.exported(self.store(batch(session(1), delivery(1, 1))))
        _, _, rest = lines.partition(b"\n")
        for version in (1, 2):
            copy = MemoryStore()
            self.do_import(b'{"mhub": "store", "schema": %d}\n' % version + rest, copy)
            self.assertEqual((len(copy.sessions), copy.notes), (1, {}))
            self.assertEqual((copy.sessions[1].epoch, copy.sessions[1].began), (0, 0))

    def test_the_clusters_clock_is_text(self) -> None:
        """Its 62 bits are more than the numbers of many tools that read JSON have."""
        line = to_line("session", {**from_line(SESSION)[1], "epoch": (1 << 62) - 1})
        self.assertEqual(json.loads(line)["epoch"], "4611686018427387903")
        self.assertNotIn("began", json.loads(line))
        self.assertEqual(from_line(line)[1]["epoch"], (1 << 62) - 1)

    def test_bytes(self) -> None:
        """A payload that is no text is base64, and so is a message that is more than its fields."""
        publish = Publish(b"t", b"\xff", 0, False)
        for body, shown in (
            (message(publish, 0.0), {"topic": "t", "payload_base64": "/w=="}),
            (b"\0\1" + bytes(26), base64.b64encode(b"\0\1" + bytes(26)).decode()),
        ):
            line = to_line("retained", {"topic": "t", "body": body})
            self.assertEqual(json.loads(line)["body"], shown)
            self.assertEqual(from_line(line), ("retained", {"topic": "t", "body": body}))

    def test_references_are_counted(self) -> None:
        """What a message's deliveries are is known from them; one that has none is left out."""
        store = self.store(
            batch(session(1), suite.message(7, 9), suite.message(8, 1)),
            batch(delivery(1, 1, 7), delivery(1, 2, 7)),
        )
        copy = MemoryStore()
        survey = self.do_import(self.exported(store), copy)
        self.assertEqual({mid: each.refs for mid, each in copy.messages.items()}, {7: 2})
        self.assertEqual(describe(survey.counts), "1 session, 1 message, 2 deliveries")
        self.assertEqual(self.done(copy.check()), [])

    def test_portions(self) -> None:
        """A long file comes as several batches, numbered from 1; so does one with long lines."""
        short = batch(*(session(sid) for sid in range(1, 2 * PORTION + 2)))
        long = batch(retained={str(number): suite.body((3 << 20) * "x") for number in range(3)})
        for made, sizes in ((short, [PORTION, PORTION, 1]), (long, [2, 1])):
            data = io.BytesIO(self.exported(self.store(made)))
            found = list(batches(data, "x.jsonl", {}))
            self.assertEqual([len(each.sessions) + len(each.retained) for each in found], sizes)
            self.assertEqual([each.number for each in found], list(range(1, len(sizes) + 1)))


class BadLineTests(JsonlCase):
    def test_first_line(self) -> None:
        ours = 'expected {"mhub": "store", "schema": 4}, as `mhub store export` writes it'
        for first, text in (
            (b"", "the file is empty"),
            (b"\n", ours),
            (b'{"mhub": "bench", "schema": 1}\n', ours),
            (b'{"mhub": "store", "schema": "1"}\n', ours),
            (b'{"mhub": "store", "schema": 0}\n', ours),
            (b'{"mhub": "store", "schema": 5}', "schema 5 is newer than this mhub, which knows 4"),
        ):
            error = self.assertRaises(BadLine, Survey, io.BytesIO(first), "x.jsonl")
            self.assertEqual(str(error), f"x.jsonl:1: {text}")

    def test_form(self) -> None:
        for line, text in (
            ("{", "not JSON"),
            (b"\xff", "not JSON"),
            (100_000 * "[", "not JSON"),
            ("[]", "expected a JSON object"),
            ("{}", f"kind: expected one of {', '.join(KINDS)}"),
            ('{"kind": ["session"]}', f"kind: expected one of {', '.join(KINDS)}"),
            ('{"kind": "session", "sid": 1}', "client_id: missing"),
            (
                '{"kind": "incoming", "sid": 1, "pdi": 1}',
                "unknown field 'pdi'; expected sid, pid",
            ),
        ):
            self.assertBad(line, f"2: {text}")

    def test_values(self) -> None:
        wide = "expected an integer from 1 to 9007199254740991"
        for field, text in (
            ('"sid": 0', f"sid: {wide}"),
            ('"sid": true', f"sid: {wide}"),
            ('"sid": 1.0', f"sid: {wide}"),
            ('"client_id": 5', "client_id: expected text"),
            ('"client_id": "\\ud800"', "client_id: expected text"),
            ('"expiry_s": -1', "expiry_s: expected an integer from 0 to 4294967295"),
            ('"ends_at": NaN', "ends_at: expected a number of seconds"),
            ('"ends_at": 1e999', "ends_at: expected a number of seconds"),
            ('"epoch": 5', "epoch: expected an integer as text"),
            ('"epoch": ""', "epoch: expected an integer as text"),
            ('"epoch": "-5"', "epoch: expected an integer as text"),
            ('"epoch": "\\u0665"', "epoch: expected an integer as text"),
            ('"began": "4611686018427387904"', f"began: expected an integer from 0 to {2**62 - 1}"),
            ('"will": "?"', "will: expected base64"),
            ('"will": null', "will: expected base64"),
            ('"will": ""', "will: expected a message, found something else in base64"),
            ('"will": "AAAA"', "will: expected a message, found something else in base64"),
            (f'"will": "Aw{36 * "A"}=="', "will: expected an integer from 0 to 2"),
            ('"will": {}', "will: topic: missing"),
            ('"will": {"topic": "t", "qos": 3}', "will: qos: expected an integer from 0 to 2"),
            (
                '"will": {"topic": "t", "payload": "", "payload_base64": ""}',
                "will: unknown field 'payload'; expected topic, qos, retain, expiry_s, expiry_at,"
                " expires_at, properties, owner",
            ),
            (
                f'"will": {{"topic": "{65536 * "x"}"}}',
                "will: expected a message, found a field beyond its bounds",
            ),
        ):
            self.assertBad(
                f'{{"kind": "session", "sid": 1, "client_id": "a", {field}}}', f"2: {text}"
            )
        self.assertBad(
            '{"kind": "subscription", "sid": 1, "name": "a", "no_local": 1}',
            "2: no_local: expected true or false",
        )
        self.assertBad(
            '{"kind": "note", "name": "a", "text": ""}', "2: text: expected text, found none"
        )
        for key, hlc, text in (
            ("", '"5"', "key: expected text, found none"),
            ("a\\u0000", '"5"', "key: expected a key of the registry"),
            ("a" * 70_000, '"5"', "key: expected a key of the registry"),
            ("a", "5", "hlc: expected an integer as text"),
            ("a", '"0"', "hlc: expected a version that is not 0"),
        ):
            self.assertBad(f'{{"kind": "registry", "key": "{key}", "hlc": {hlc}}}', f"2: {text}")
        for more in ("", ', "mid": 1, "body": {"topic": ""}'):
            self.assertBad(
                f'{{"kind": "delivery", "sid": 1, "seq": 1{more}}}',
                "2: expected one of mid and body",
            )

    def test_twice(self) -> None:
        one = '{"kind": "session", "sid": 1, "client_id": "a"}'
        own = '{"kind": "delivery", "sid": 1, "body": {"topic": ""},'
        for line, again, text in (
            (one, '{"kind": "session", "sid": 1, "client_id": "b"}', "sid 1"),
            (one, '{"kind": "session", "sid": 2, "client_id": "a"}', "client id a"),
            ('{"kind": "subscription", "sid": 1, "name": "a"}', "", "subscription 1/a"),
            ('{"kind": "incoming", "sid": 1, "pid": 3}', "", "incoming 1/3"),
            ('{"kind": "message", "mid": 9, "body": {"topic": ""}}', "", "message 9"),
            ('{"kind": "retained", "topic": "a", "body": {"topic": ""}}', "", "retained a"),
            ('{"kind": "note", "name": "a", "text": "b"}', "", "note a"),
            (
                '{"kind": "registry", "key": "a", "hlc": "5"}',
                '{"kind": "registry", "key": "a", "hlc": "6", "value": "1"}',
                "retained \0registry/a",
            ),
            (f'{own} "seq": 4}}', "", "delivery 1/4"),
            (f'{own} "seq": 4, "pid": 8}}', f'{own} "seq": 5, "pid": 8}}', "in flight 1/8"),
        ):
            self.assertBad(f"{line}\n\n{again or line}\n", f"4: {text} comes twice")

    def test_entries_that_a_broker_would_leave_out(self) -> None:
        """A row with a slip of the pen, which should deny something, is not lost without a word."""
        row = ["p", "role:everyone", "*", "publish", "a", "any", "deny"]
        rule_id = parse_row(row).id
        for key, value, text in (
            (f"rule/{rule_id}", {"row": [*row[:-1], "denny"]}, "the effect is allow or deny"),
            (f"rule/{rule_id}", {"row": "deny"}, "row: expected a list of texts"),
            ("rule/0123456789ab", {"row": row}, f"the id of this row is {rule_id}"),
            ("role/a", {"parents": 7}, "parents: expected a list of roles"),
            ("user/a", {"roles": ["everyone"]}, "is given to nobody"),
        ):
            line = {"kind": "registry", "key": key, "hlc": "5", "value": json.dumps(value)}
            file = io.BytesIO(HEADER + json.dumps(line).encode())
            error = self.assertRaises(BadLine, Survey, file, "x.jsonl", check_entry)
            self.assertIn(f"2: {key}", str(error).replace("x.jsonl:", ""))
            self.assertIn(text, str(error))
        good = {f"rule/{rule_id}": {"row": row}, "user/a": {}, "role/a": {}, "ban/user/x": {}}
        lines = [
            {"kind": "registry", "key": key, "hlc": "5", "value": json.dumps(value)}
            for key, value in good.items()
        ]
        lines.append({"kind": "registry", "key": "rule/gone", "hlc": "5"})
        text = "\n".join(json.dumps(line) for line in lines)
        survey = Survey(io.BytesIO(HEADER + text.encode()), "x.jsonl", check_entry)
        self.assertEqual(survey.counts["registry"], 5)

    def test_out_of_order(self) -> None:
        """Deliveries may come in any order, but a place is taken once."""
        one = '{"kind": "session", "sid": 1, "client_id": "a"}\n'
        line = '{"kind": "delivery", "sid": 1, "body": {"topic": ""}, "seq": %d}\n'
        mixed = one + "".join(line % seq for seq in (5, 2, 9, 4))
        Survey(io.BytesIO(HEADER + mixed.encode()), "x.jsonl")
        self.assertBad(mixed + line % 9 + line % 10, "7: delivery 1/9 comes twice")

    def test_what_is_missing(self) -> None:
        one = '{"kind": "session", "sid": 1, "client_id": "a"}\n'
        for line, text in (
            ('{"kind": "subscription", "sid": 2, "name": "a"}', "session 2"),
            ('{"kind": "incoming", "sid": 2, "pid": 1}', "session 2"),
            ('{"kind": "delivery", "sid": 2, "seq": 1, "body": {"topic": ""}}', "session 2"),
            ('{"kind": "delivery", "sid": 1, "seq": 1, "mid": 6}', "message 6"),
        ):
            self.assertBad(f"{one}{line}", f"3: there is no {text} in this file")

    @steady
    @given(st.lists(st.binary()))
    def test_any_lines(self, lines: list[bytes]) -> None:
        """Any file is surveyed or has a bad line, nothing else."""
        try:
            Survey(io.BytesIO(HEADER + b"\n".join(lines)), "x.jsonl")
        except BadLine:
            pass

    @steady
    @given(
        st.sampled_from([(kind, name) for kind, fields in KINDS.items() for name in fields]),
        st.sampled_from(["0", "-1", "1e400", "NaN", "true", '""', '"é"', "[]", "{}", "null"]),
    )
    def test_any_value(self, place: tuple[str, str], value: str) -> None:
        """No type of value in any field gives anything but its record or a bad line."""
        kind, name = place
        texts = dict.fromkeys(("client_id", "name", "topic", "text"), '"a"')
        good = {**texts, "body": BODY}
        fields = {
            field: good.get(field, "1")
            for field, entry in KINDS[kind].items()
            if entry.default is REQUIRED
        }
        fields |= {"kind": f'"{kind}"', name: value}
        line = ", ".join(f'"{field}": {text}' for field, text in fields.items())
        try:
            found = from_line(f"{{{line}}}".encode())
        except ValueError:
            return
        self.assertEqual(from_line(to_line(*found)), found)


class ImportTests(JsonlCase):
    def test_needs_an_empty_store(self) -> None:
        """One that was used and is empty now is empty."""
        lines = self.exported(self.store(batch(session(1))))
        used = self.store(batch(session(3), delivery(3, 1)), batch(ended=[3]))
        self.do_import(lines, used)
        for held in (
            batch(session(1)),
            batch(retained={"t": suite.body()}),
            batch(notes={"n": "1"}),
        ):
            store = self.store(held)
            before = self.done(portrait(store))
            error = self.failed(lines, store)
            self.assertEqual(str(error), "memory: not empty; an import needs an empty store")
            self.assertEqual(self.done(portrait(store)), before)

    def test_the_store_fails(self) -> None:
        """When a part is stored already, that is said."""
        lines = self.exported(self.store(batch(*(session(sid) for sid in range(1, PORTION + 2)))))
        store = MemoryStore()
        store.failing = "no space"
        self.assertEqual(str(self.failed(lines, store)), "memory: no space")

        class Filling(MemoryStore):
            async def commit(self, batch: Batch) -> None:
                await super().commit(batch)
                self.failing = "no space"

        self.assertEqual(
            str(self.failed(lines, Filling())),
            "memory: no space; memory has a part of it: empty it before you try again",
        )

    def failed(self, data: bytes, store: MemoryStore) -> BaseException:
        file = io.BytesIO(data)
        work = import_from(file, "x.jsonl", Survey(file, "x.jsonl"), store, Progress(io.StringIO()))
        found: BaseException = self.failureResultOf(Deferred.fromCoroutine(work), StoreError).value
        return found


class CheckTests(JsonlCase):
    def test_all_is_well(self) -> None:
        out = io.StringIO()
        store = self.store(batch(session(1), session(2), delivery(1, 1), notes={"n": "1"}))
        self.assertEqual(self.done(check(store, out)), 0)
        self.assertEqual(
            out.getvalue(), "memory: no problems found; 2 sessions, 1 delivery, 1 note\n"
        )

    def test_nothing(self) -> None:
        out = io.StringIO()
        self.assertEqual(self.done(check(MemoryStore(), out)), 0)
        self.assertEqual(out.getvalue(), "memory: no problems found; nothing in it\n")

    def test_problems(self) -> None:
        out = io.StringIO()
        self.assertEqual(self.done(check(self.store(batch(delivery(1, 1))), out)), 1)
        self.assertEqual(
            out.getvalue(), "delivery 1/1: there is no such session\nmemory: 1 problem\n"
        )


class ProgressTests(SynchronousTestCase):
    def test_on_a_terminal_only(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        for out, expected in ((Terminal(), "\r5 records\r\x1b[K"), (io.StringIO(), "")):
            progress = Progress(out)
            with progress:
                progress.show(5)
            self.assertEqual(out.getvalue(), expected)
