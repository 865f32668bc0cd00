"""What a hostile peer gets from Perspective Broker here: nothing, and an end.

Everything that it says is written by hand, as banana and jelly: see twisted.spread.
"""

import random
import sys
from typing import Any, ClassVar

from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.spread import banana, jelly, pb
from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import link
from mhub.cluster.broker import STRANGER_BYTES, Broker, PlainData, cast
from tests.cluster.ends import LONGEST_S, LinkCase, Raw, loop
from tests.helpers.splits import cut, one_by_one

NEVER_S = 2 * LONGEST_S
"""So that it is not the time which ends a connection here."""
NONCE = bytes(32)
DIALECT = b"\x02\x82pb"
TRAP = "antigravity"
"""A module of Python's that nobody imports unless he is told to."""


def call(target: bytes | int, name: bytes, *arguments: Any, keywords: Any = ()) -> list[Any]:
    """A call that wants an answer."""
    return [b"message", 1, target, name, 1, [b"tuple", *arguments], [b"dictionary", *keywords]]


OBJECTS: dict[str, Any] = {
    "an instance by its class": [b"antigravity.Thing", [b"dictionary"]],
    "an instance, as before": [b"instance", [b"class", b"antigravity.Thing"], [b"dictionary"]],
    "a class": [b"class", b"antigravity.Thing"],
    "a module": [b"module", b"antigravity"],
    "a function": [b"function", b"antigravity.geohash"],
    "a method": [b"method", b"system", [b"None"], [b"class", b"antigravity.Thing"]],
    "a copy, registered": [b"twisted.spread.pb.CopyableFailure", [b"dictionary"]],
    "a reference": [b"remote", 1],
    "a local object": [b"local", b"root"],
    "a cache": [b"cached", 1],
    "a cache of ours": [b"lcache", 1],
    "a persistent object": [b"persistent", b"x"],
    "an unpersistable one": [b"unpersistable", b"x"],
    "a cycle": [b"reference", 1, [b"list", [b"dereference", 1]]],
    "a list": [b"list", 1, 2],
    "a dictionary": [b"dictionary", [b"x", 1]],
    "a set": [b"set", 1],
    "a text": [b"unicode", b"x"],
    "a decimal": [b"decimal", 1, 10**9],
    "a date": [b"datetime", b"1 1 1 1 1 1 1"],
    "nothing": [],
}

COMMANDS: dict[str, Any] = {
    "a call of a cache": [b"cachemessage", 1, 1, b"x", 1, [b"tuple"], [b"dictionary"]],
    "the end of a cache": [b"decache", 1],
    "an end of ours": [b"uncache", 1],
    "the end of a reference": [b"decref", b"root"],
    "the end of another": [b"decref", 1],
    "an answer": [b"answer", 1, [b"tuple"]],
    "an error": [b"error", 1, [b"twisted.spread.pb.CopyableFailure", [b"dictionary"]]],
    "a complaint": [b"didNotUnderstand", b"x"],
    "another version": [b"version", 5],
    "something else": [b"dataReceived", b"x"],
    "no command": [],
    "a list for a command": [[b"message"]],
    "a number": 7,
    "a string": b"message",
    "too little": [b"message", 1],
    "too much": [*call(b"root", b"challenge", NONCE), 1],
    "keywords": call(b"root", b"challenge", NONCE, keywords=[[b"nonce", NONCE]]),
    "no tuple": [b"message", 1, b"root", b"challenge", 1, b"tuple", [b"dictionary"]],
}

CALLS: dict[str, Any] = {
    "of nobody": call(b"nobody", b"challenge", NONCE),
    "of a number": call(1, b"challenge", NONCE),
    "of a method that is none": call(b"root", b"nothing"),
    "of a method inside": call(b"root", b"_prove", b"", b""),
    "of one with a dunder": call(b"link", b"__init__"),
    "of one that is not text": call(b"root", b"\xff\xfe"),
    "with too few arguments": call(b"root", b"challenge"),
    "with too many": call(b"root", b"challenge", NONCE, b""),
    "with others": call(b"root", b"challenge", 7),
    "with a short nonce": call(b"root", b"challenge", NONCE[1:]),
    "of prove, first": call(b"root", b"prove", bytes(32), b""),
    "of begin, before the login": call(b"link", b"begin"),
    "of part, before the login": call(b"link", b"part", b"x"),
    "of frame, before the login": call(b"link", b"frame", 1, b"x"),
}

BYTES = {
    "a number without an end": b"\x01" * 100,
    "a number that is too large": b"\x7f" * 64 + b"\x81",
    "a string that is too long": b"\x01\x00\x28\x82",
    "a list that is too long": b"\x7f\x7f\x01\x80",
    "lists that are too deep": b"\x01\x80" * 10_000,
    "a negative number": b"\x01\x83",
    "a large negative number": b"\x01\x86",
    "a float": b"\x84" + bytes(8),
    "an item that is none": b"\xff",
    "more than a stranger may say": banana.encode(
        call(b"root", b"prove", NONCE, bytes(STRANGER_BYTES))
    ),
    "a call that does not end": b"\x07\x80\x7f\x7f\x1f\x82" + bytes(STRANGER_BYTES),
}

FIRST = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: node-a\r\n\r\n" * 10,
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(range(200)),
    "MQTT": b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03dev",
    "another dialect": banana.encode(b"none"),
    "a list of dialects": banana.encode([b"pb"]),
    "a number": banana.encode(5),
}


class HostileCase(LinkCase):
    def setUp(self) -> None:
        super().setUp()
        # These peers do not hang up when they are told to.
        self.patch(link, "LINGER_S", 0.001)
        for owner in (jelly, pb):
            self.patch(owner, "unjelly", self._created)
        self.assertNotIn(TRAP, sys.modules)

    def _created(self, *arguments: object) -> None:
        self.fail(f"jelly has read {arguments}")

    async def check(self, *said: bytes) -> None:
        """Each of these ends the connection that said it, and nothing else."""
        _, address = self.listening(self.a, login_timeout_s=NEVER_S)
        for data in said:
            raw = await self.call(address)
            raw.say(data)
            await raw.ended
        self.assertNotIn(TRAP, sys.modules)
        self.assertEqual(self.a.events, [])
        # Bugs would be logged as errors, with tracebacks.
        self.assertEqual(self.flushLoggedErrors(), [])
        await self.still_serves(address)


class StrangerTests(HostileCase):
    """A connection that has not logged in says what it should not."""

    async def test_objects(self) -> None:
        challenges = (call(b"root", b"challenge", each) for each in OBJECTS.values())
        await self.check(*(DIALECT + banana.encode(each) for each in challenges))

    async def test_commands(self) -> None:
        await self.check(*(DIALECT + banana.encode(each) for each in COMMANDS.values()))

    async def test_calls(self) -> None:
        await self.check(*(DIALECT + banana.encode(each) for each in CALLS.values()))

    async def test_bytes(self) -> None:
        await self.check(*(DIALECT + each for each in BYTES.values()))

    async def test_other_protocols(self) -> None:
        await self.check(*FIRST.values())

    async def test_no_answer_to_what_is_wrong(self) -> None:
        """It hears that it is over, and no traceback, no name of a module, no path."""
        self.patch(link, "LINGER_S", NEVER_S)  # it hangs up itself, when it has heard all
        _, address = self.listening(self.a, login_timeout_s=NEVER_S)
        raw = await self.call(address)
        raw.say(DIALECT + banana.encode(CALLS["of nobody"]))
        close = b"".join(cast(b"link", b"close", b"a call to an unknown object"))
        while not raw.data.endswith(close):
            await deferLater(loop, 0.001)
        raw.hang_up()
        await raw.ended
        for word in (b"Traceback", b"mhub", b"twisted", b".py"):
            self.assertNotIn(word, raw.data)

    async def test_challenge_twice(self) -> None:
        challenge = banana.encode(call(b"root", b"challenge", NONCE))
        await self.check(DIALECT + challenge + challenge)

    async def test_proving_twice(self) -> None:
        """Each guess costs a connection."""
        challenge = banana.encode(call(b"root", b"challenge", NONCE))
        prove = banana.encode(call(b"root", b"prove", bytes(32), b""))
        await self.check(
            DIALECT + challenge + prove + prove, DIALECT + challenge + prove + challenge
        )


class Listener(Raw):
    """A hostile one: it says everything at once."""

    said: ClassVar[bytes] = b""

    def connectionMade(self) -> None:
        self.say(self.said)


class ListenerTests(HostileCase):
    """A node dials somebody who is none."""

    async def check(self, *said: bytes) -> None:
        links = self.links(self.b, login_timeout_s=NEVER_S)
        for data in said:
            hostile = type("Hostile", (Listener,), {"said": data})
            links.dial(self.serve(hostile))
            await self.b.next("dial_failed")
        self.assertNotIn(TRAP, sys.modules)
        self.assertNotIn("opened", self.b.events)
        self.assertEqual(self.flushLoggedErrors(), [])

    OFFER = banana.encode([b"pb", b"none"])

    async def test_objects_in_answers(self) -> None:
        for each in OBJECTS.values():
            plain = banana.encode([b"answer", 1, each])
            inside = banana.encode([b"answer", 1, [b"tuple", NONCE, each]])
            await self.check(self.OFFER + plain, self.OFFER + inside)

    async def test_objects_in_errors(self) -> None:
        for each in OBJECTS.values():
            await self.check(self.OFFER + banana.encode([b"error", 1, each]))

    async def test_commands(self) -> None:
        await self.check(*(self.OFFER + banana.encode(each) for each in COMMANDS.values()))

    async def test_calls(self) -> None:
        """`root` is not even there on this side."""
        await self.check(*(self.OFFER + banana.encode(each) for each in CALLS.values()))

    async def test_bytes(self) -> None:
        await self.check(*(self.OFFER + each for each in BYTES.values()))

    async def test_other_protocols(self) -> None:
        await self.check(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20, banana.encode([b"none"]))

    async def test_answers_of_the_wrong_shape(self) -> None:
        for answer in ([b"tuple"], [b"tuple", NONCE, b""], [b"tuple", b""], [b"tuple", 1]):
            await self.check(self.OFFER + banana.encode([b"answer", 1, answer]))

    async def test_a_proof_of_the_wrong_shape(self) -> None:
        answered = banana.encode([b"answer", 1, [b"tuple", NONCE]])
        for proof in ([b"tuple"], [b"tuple", 1, 2], [b"tuple", b""], [b"tuple", b"", b""]):
            await self.check(self.OFFER + answered + banana.encode([b"answer", 2, proof]))


class Callee:
    calls: ClassVar[dict[bytes, tuple[type, ...]]] = {
        b"frame": (int, bytes),
        b"part": (bytes,),
        b"begin": (),
    }

    def __init__(self) -> None:
        self.got: list[tuple[Any, ...]] = []

    def remote_frame(self, kind: int, body: bytes) -> None:
        self.got.append((kind, body))

    def remote_part(self, body: bytes) -> None:
        self.got.append((body,))

    def remote_begin(self) -> None:
        self.got.append(())


class Owner:
    def __init__(self) -> None:
        self.complaints: list[str] = []

    def connected(self) -> None:
        pass

    def broken(self, text: str) -> None:
        self.complaints.append(text)

    def disconnected(self, why: object) -> None:
        pass


class Wire(StringTransport):
    def setTcpNoDelay(self, on: bool) -> None:
        pass

    setTcpKeepAlive = setTcpNoDelay


class Factory:
    def clientConnectionMade(self, broker: object) -> None:
        pass


class ReaderCase(SynchronousTestCase):
    def broker(self, trusted: bool = True) -> Any:
        broker: Any = Broker(False, PlainData())
        broker.owner = Owner()
        broker.factory = Factory()
        broker.makeConnection(Wire())
        broker.trusted = trusted
        broker.setNameForLocal(b"link", Callee())
        broker.dataReceived(DIALECT)
        return broker

    def got(self, broker: Any) -> list[tuple[Any, ...]]:
        callee: Callee = broker.localObjectForID(b"link")
        return callee.got


class ReaderTests(ReaderCase):
    ARGUMENTS: ClassVar = [
        (b"begin",),
        (b"frame", 0, b""),
        (b"frame", 300, b"\x80\x82" * 70),
        (b"part", bytes(200)),
    ]

    def test_however_it_arrives(self) -> None:
        """Whole, byte by byte, and with a tail: the same calls."""
        stream = b"".join(b"".join(cast(b"link", *each)) for each in self.ARGUMENTS)
        expected = [each[1:] for each in self.ARGUMENTS]
        for pieces in ([stream], one_by_one(stream), *(cut(stream, [at]) for at in range(60))):
            broker = self.broker()
            for piece in pieces:
                broker.dataReceived(piece)
            self.assertEqual(self.got(broker), expected)
            self.assertEqual(broker.owner.complaints, [])

    def test_a_cast_is_a_call_of_pb(self) -> None:
        """Twisted's own broker would send the same, but for the number of the request."""
        for name, *arguments in self.ARGUMENTS:
            theirs: Any = pb.Broker(True, PlainData())  # type: ignore[no-untyped-call]
            theirs.factory = Factory()
            theirs.makeConnection(StringTransport())
            theirs._selectDialect(b"pb")
            theirs.transport.clear()
            theirs.newRequestID = lambda: 0
            theirs.remoteForName("link").callRemote(name, *arguments, pbanswer=0)
            self.assertEqual(b"".join(cast(b"link", name, *arguments)), theirs.transport.value())

    def test_the_longest_string(self) -> None:
        broker = self.broker()
        body = bytes(banana.SIZE_LIMIT - 100)
        broker.dataReceived(b"".join(cast(b"link", b"part", body)))
        self.assertEqual(self.got(broker), [(body,)])
        broker.dataReceived(b"".join(cast(b"link", b"part", bytes(banana.SIZE_LIMIT))))
        self.assertEqual(len(broker.owner.complaints), 1)

    def test_a_call_is_bounded_as_a_whole(self) -> None:
        """Strings that are each within bounds are not so together."""
        broker = self.broker()
        broker.dataReceived(b"".join(cast(b"link", b"part", *([bytes(200_000)] * 5))))
        self.assertEqual(len(broker.owner.complaints), 1)

    def test_nothing_is_kept_of_what_is_too_long(self) -> None:
        """It is refused by its head: nobody waits for the rest."""
        broker = self.broker()
        broker.dataReceived(b"\x02\x80\x01\x00\x28\x82")
        self.assertEqual(len(broker.owner.complaints), 1)

    def test_one_complaint(self) -> None:
        """After it nothing is read any more."""
        broker = self.broker()
        broker.dataReceived(b"\xff")
        broker.dataReceived(b"".join(cast(b"link", b"begin")))
        self.assertEqual((len(broker.owner.complaints), self.got(broker)), (1, []))


class TasterTests(SynchronousTestCase):
    """Should jelly ever be asked to read something, it makes nothing of it either."""

    def test_objects(self) -> None:
        for each in OBJECTS.values():
            if each:
                self.check(each)

    def check(self, sexp: list[Any]) -> None:
        if sexp[0] == b"dictionary":
            self.assertEqual(jelly.unjelly(sexp, PlainData()), {b"x": 1})
        else:
            self.assertRaises(jelly.InsecureJelly, jelly.unjelly, sexp, PlainData())

    def test_what_the_taster_of_twisted_lets_pass(self) -> None:
        """Why there is one of our own: names with a dot in them go to whoever registered them."""
        theirs: Any = jelly.SecurityOptions
        state = [b"dictionary", [[b"unicode", b"parents"], [b"list"]]]
        failure = [b"twisted.spread.pb.CopyableFailure", state]
        options = theirs()
        options.allowBasicTypes()
        self.assertIsInstance(jelly.unjelly(failure, options, None, Owner()), pb.CopiedFailure)


class FuzzTests(ReaderCase):
    def test_noise(self) -> None:
        """Whatever comes, the reader raises nothing and calls nothing but what is in `calls`."""
        rng = random.Random(11)
        for _ in range(2000):
            broker = self.broker(trusted=rng.random() < 0.5)
            for _ in range(rng.randrange(1, 5)):
                broker.dataReceived(self.noise(rng))
            self.assertLessEqual(len(broker.owner.complaints), 1)
            for arguments in self.got(broker):
                self.assertIn(tuple(map(type, arguments)), Callee.calls.values())
        self.assertEqual(self.flushLoggedErrors(), [])

    def noise(self, rng: random.Random) -> bytes:
        """A good call, or a bad one, or bytes; mostly with a few of them changed."""
        bank = [*COMMANDS.values(), *CALLS.values(), *OBJECTS.values()]
        good = b"".join(cast(b"link", b"frame", rng.randrange(1000), rng.randbytes(5)))
        data = bytearray(rng.choice([good, banana.encode(rng.choice(bank)), rng.randbytes(40)]))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
