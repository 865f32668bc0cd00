"""Who gets a link, who does not, and that both logs say why."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from twisted.cred.error import LoginDenied, UnauthorizedLogin
from twisted.cred.portal import Portal
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.spread import banana
from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import link, strangers
from mhub.cluster.login import (
    DIALLER,
    LISTENER,
    ILink,
    Proof,
    Realm,
    SecretChecker,
    Secrets,
    Transcript,
)
from tests.cluster.ends import SETTINGS, FakeEnds, LinkCase, Raw, loop

DIALECT = b"\x02\x82pb"


def call(name: bytes, *arguments: bytes) -> bytes:
    """A call of the listener's root."""
    return bytes(
        banana.encode([b"message", 1, b"root", name, 1, [b"tuple", *arguments], [b"dictionary"]])
    )


SAID = Transcript(b"d" * 32, b"l" * 32, b"hello of d", b"hello of l")


class ProofTests(SynchronousTestCase):
    def test_it_is_about_all_that_was_said(self) -> None:
        """Another nonce, hello, role or secret is another proof."""
        proofs = {
            SAID.proof(DIALLER, b"secret"),
            SAID.proof(LISTENER, b"secret"),
            SAID.proof(DIALLER, b"another"),
            SAID.proof(DIALLER, b""),
            replace(SAID, dialler_nonce=b"x" * 32).proof(DIALLER, b"secret"),
            replace(SAID, listener_nonce=b"x" * 32).proof(DIALLER, b"secret"),
            replace(SAID, dialler_hello=b"x").proof(DIALLER, b"secret"),
            replace(SAID, listener_hello=b"x").proof(DIALLER, b"secret"),
            replace(SAID, listener_hello=b"").proof(DIALLER, b"secret"),
        }
        self.assertEqual(len(proofs), 9)

    def test_where_one_field_ends_is_a_part_of_it(self) -> None:
        moved = replace(SAID, dialler_hello=b"hello of dh", listener_hello=b"ello of l")
        self.assertNotEqual(moved.proof(DIALLER, b"s"), SAID.proof(DIALLER, b"s"))

    def test_it_stays_as_it_is(self) -> None:
        """Nodes of other versions compute the same: this one is from `openssl dgst -hmac`."""
        expected = "3065ce5284fd530d7ad5606075330c7e77796a622efe7dd1237e85a2acaa6960"
        self.assertEqual(SAID.proof(DIALLER, b"secret").hex(), expected)


class Mind:
    """A party that may be refused."""

    def __init__(self, refuses: str) -> None:
        self.refuses = refuses

    def refusal(self) -> str:
        return self.refuses


class PortalTests(SynchronousTestCase):
    """The checker knows the secret, the realm who is welcome."""

    def login(self, secret: bytes, refuses: str = "") -> Deferred[Any]:
        portal: Any = Portal(Realm(), [SecretChecker(Secrets(b"secret", lambda: 0.0))])  # type: ignore[arg-type,list-item]
        proof = Proof(SAID, DIALLER, SAID.proof(DIALLER, secret))
        self.mind = Mind(refuses)
        entered: Deferred[Any] = portal.login(proof, self.mind, ILink)
        return entered

    def test_the_avatar_is_the_link(self) -> None:
        interface, avatar, _ = self.successResultOf(self.login(b"secret"))
        self.assertIs(interface, ILink)
        self.assertIs(avatar, self.mind)

    def test_another_secret(self) -> None:
        self.failureResultOf(self.login(b"another"), UnauthorizedLogin)

    def test_not_welcome(self) -> None:
        failure = self.failureResultOf(self.login(b"secret", "full"), LoginDenied)
        self.assertEqual(str(failure.value), "full")

    def test_a_stranger_is_not_judged(self) -> None:
        """What a node thinks of others is for those who have proven themselves."""
        self.failureResultOf(self.login(b"another", "full"), UnauthorizedLogin)


class LoginTests(LinkCase):
    async def refused(self, text: str, **changes: Any) -> str:
        """The dial fails with this text, and it is in the log of both; what the dialler heard."""
        _, address = self.listening(self.a)
        self.links(self.b, **changes).dial(address)
        failed, heard = await self.b.next("dial_failed")
        self.assertEqual(failed, address)
        self.assertIn(text, heard)
        while not self.lines("(node-b)", text):
            await deferLater(loop, 0.001)
        self.assertEqual(len(self.lines(address, text)), 1)
        self.assertEqual(len(self.lines("(node-b)", text)), 1)
        self.assertNotIn("opened", self.a.events + self.b.events)
        await self.still_serves(address)
        return str(heard)

    async def test_the_same_secret(self) -> None:
        await self.linked()

    async def test_no_secret(self) -> None:
        """Then it is TLS that decides; here it lets everybody in who has none either."""
        await self.linked(secret=b"")

    async def test_another_secret(self) -> None:
        await self.refused("the shared secrets differ", secret=b"another")

    async def test_a_secret_of_one_side(self) -> None:
        await self.refused("the shared secrets differ", secret=b"")

    async def test_the_listener_refuses(self) -> None:
        self.a.refuses = "it speaks version 7, and here it is 1"
        _, address = self.listening(self.a)
        self.links(self.b).dial(address)
        _, heard = await self.b.next("dial_failed")
        self.assertIn(f"the other side says: {self.a.refuses}", heard)
        self.assertEqual(len(self.lines(address, self.a.refuses)), 1)
        self.assertEqual(len(self.lines("(node-b)", self.a.refuses)), 1)
        self.assertEqual(self.a.events, [])

    async def test_the_dialler_refuses(self) -> None:
        self.b.refuses = "two nodes with one name"
        await self.refused("two nodes with one name")
        self.assertEqual(self.b.events, ["dial_failed"])

    async def test_both_refuse(self) -> None:
        self.a.refuses = self.b.refuses = "no"
        _, address = self.listening(self.a)
        self.links(self.b).dial(address)
        await self.b.next("dial_failed")
        self.assertNotIn("opened", self.a.events + self.b.events)

    async def test_what_others_say_cannot_forge_the_log(self) -> None:
        """Neither a name nor a reason can begin a line of its own, or be without an end."""
        self.a.name = "evil\nnode " + "x" * 1000
        self.a.refuses = "line one\nline two\x1b[31m" + "y" * 1000
        _, address = self.listening(self.a)
        self.links(self.b).dial(address)
        await self.b.next("dial_failed")
        for line in self.lines(address):
            self.assertTrue(line.isprintable())
            self.assertLess(len(line), 1000)


class StrangerTests(LinkCase):
    async def test_a_login_takes_its_time(self) -> None:
        """Whoever calls and says nothing, or stops halfway, is cut off."""
        challenge = banana.encode(
            [b"message", 1, b"root", b"challenge", 1, [b"tuple", bytes(32)], [b"dictionary"]]
        )
        self.patch(link, "LINGER_S", 0.001)
        _, address = self.listening(self.a, login_timeout_s=0.05)
        for said in (b"", DIALECT, DIALECT + challenge, DIALECT + challenge[:20]):
            raw = await self.call(address)
            raw.say(said)
            await raw.ended
        self.assertEqual(len(self.lines("no login within 0.05 s")), 4)
        await self.still_serves(address)

    async def test_a_listener_takes_its_time(self) -> None:
        self.links(self.b, login_timeout_s=0.05).dial(self.serve(Raw))
        _, text = await self.b.next("dial_failed")
        self.assertIn("no login within 0.05 s", text)

    async def test_a_login_that_took_its_time_does_not_end_later(self) -> None:
        at_a, _ = await self.linked(login_timeout_s=0.05)
        await deferLater(loop, 0.1)
        at_a.send(1, b"still here")
        self.assertEqual(await self.b.next("received"), (1, b"still here"))

    async def test_a_crowd_of_strangers(self) -> None:
        """Only so many may wait: the oldest go for those who come, and nodes get their links."""
        links, address = self.listening(self.a, max_strangers=3, max_strangers_per_address=3)
        waiting = [await self.call(address) for _ in range(3)]
        for raw in waiting:
            raw.say(DIALECT)
        for old in waiting:
            await self.call(address)
            await old.ended
        self.assertEqual((len(links.strangers), links.strangers.evicted), (3, 3))
        self.assertEqual(len(self.lines("3 connections to the peer port have not logged in")), 1)
        await self.still_serves(address)
        self.assertEqual(links.strangers.rejected, 0)

    async def test_a_node_is_not_told_to_strangers(self) -> None:
        """Which cluster and node it is: nobody hears that before it has shown a right proof."""
        self.patch(link, "LINGER_S", 0.001)
        self.patch(strangers, "FIRST_DELAY_S", 0.001)
        _, address = self.listening(self.a)
        raw = await self.call(address)
        raw.say(DIALECT + call(b"challenge", bytes(32)) + call(b"prove", bytes(32), b"{}"))
        await raw.ended
        self.assertIn(b"the shared secrets differ", raw.data)
        self.assertNotIn(b"node-a", raw.data)

    async def test_who_guesses_has_to_wait(self) -> None:
        """Longer each time; and a node from the same address does not."""
        links, address = self.listening(self.a, max_strangers_per_address=3)
        waits: list[float] = []
        fails = links.strangers.fails

        def noted(host: str, now: float) -> tuple[float, int]:
            delay_s, count = fails(host, now)
            waits.append(delay_s)
            return delay_s, count

        self.patch(links.strangers, "fails", noted)
        guess = DIALECT + call(b"challenge", bytes(32)) + call(b"prove", bytes(32), b"{}")
        for count in (1, 2):
            raw = await self.call(address)
            raw.say(guess)
            while len(waits) < count:
                await deferLater(loop, 0.001)
            self.assertFalse(raw.ended.called)
        await self.still_serves(address)
        self.assertEqual(waits, [1.0, 2.0])
        raw = await self.call(address)
        raw.say(guess)
        while len(waits) < 3:
            await deferLater(loop, 0.001)
        self.assertEqual(waits, [1.0, 2.0, 1.0], "a node has logged in from there")
        rejected = await self.call(address)
        await rejected.ended
        self.assertEqual(links.strangers.rejected, 1, "three wrong proofs have all its places")
        self.assertEqual(links.strangers.wrong_proofs, 3)

    async def test_who_guesses_cannot_hurry_the_answer(self) -> None:
        """By something that would end the connection at once."""
        links, address = self.listening(self.a)
        raw = await self.call(address)
        guess = call(b"challenge", bytes(32)) + call(b"prove", bytes(32), b"{}")
        raw.say(DIALECT + guess + guess + b"\xff" * 100)
        while not links.strangers.wrong_proofs:
            await deferLater(loop, 0.001)
        raw.say(guess)
        await deferLater(loop, 0.05)
        self.assertFalse(raw.ended.called)
        self.assertNotIn(b"close", raw.data)
        self.assertEqual(links.strangers.wrong_proofs, 1)

    async def test_a_look_is_no_news(self) -> None:
        """Something that connects and goes, as a health check does, is not warned of."""
        _, address = self.listening(self.a)
        (await self.call(address)).hang_up()
        await self.still_serves(address)
        self.assertEqual(self.warned, [])


class Relay(Protocol):
    """The network between two nodes, which hears everything and may change it."""

    def __init__(self, address: str, change: Callable[[bytes], bytes], heard: list[bytes]) -> None:
        self._address = address
        self._change = change
        self._heard = heard
        self._early: list[bytes] = []
        self.other: Any = None

    def connectionMade(self) -> None:
        if self.other is None:
            host, _, port = self._address.rpartition(":")
            beyond = Relay("", self._change, self._heard)
            beyond.other = self
            reached = connectProtocol(TCP4ClientEndpoint(loop, host, int(port)), beyond)
            reached.addCallback(self._joined)

    def _joined(self, beyond: Any) -> None:
        self.other = beyond
        for data in self._early:
            self.dataReceived(data)

    def dataReceived(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self._heard.append(data)
            self.other.transport.write(self._change(data))

    def connectionLost(self, reason: Any = None) -> None:
        if self.other is not None:
            self.other.transport.loseConnection()


class WireTests(LinkCase):
    """Somebody sits between two nodes."""

    def between(self, change: Callable[[bytes], bytes] = lambda data: data) -> str:
        _, address = self.listening(self.a)
        self.wire: list[bytes] = []
        return self.serve(lambda: Relay(address, change, self.wire))

    async def test_the_secret_is_not_on_the_wire(self) -> None:
        self.links(self.b).dial(self.between())
        await self.b.next("opened")
        await self.a.next("opened")
        self.assertNotIn(SETTINGS.secret, b"".join(self.wire))

    async def check(self, change: Callable[[bytes], bytes]) -> None:
        self.links(self.b).dial(self.between(change))
        _, text = await self.b.next("dial_failed")
        self.assertIn("the shared secrets differ", text)
        self.assertNotIn("opened", self.a.events + self.b.events)

    async def test_the_hello_of_the_dialler_cannot_be_changed(self) -> None:
        await self.check(lambda data: data.replace(b"node-b", b"node-c"))

    async def test_the_hello_of_the_listener_cannot_be_changed(self) -> None:
        await self.check(lambda data: data.replace(b"node-a", b"node-c"))

    async def test_what_was_said_once_is_no_use_again(self) -> None:
        """The nonces differ each time."""
        _, address = self.listening(self.a)
        spoken: list[bytes] = []

        class Tap(Relay):
            def dataReceived(self, data: bytes) -> None:
                if self._address:
                    spoken.append(data)
                super().dataReceived(data)

        self.links(self.b).dial(self.serve(lambda: Tap(address, lambda data: data, [])))
        await self.a.next("opened")
        self.patch(link, "LINGER_S", 0.001)
        self.patch(strangers, "FIRST_DELAY_S", 0.001)
        raw = await self.call(address)
        raw.say(b"".join(spoken))
        await raw.ended
        self.assertEqual(self.a.events.count("opened"), 1)
        self.assertEqual(len(self.lines("the shared secrets differ")), 1)

    async def test_a_proof_cannot_be_sent_back(self) -> None:
        """A listener that does not know the secret cannot use what the dialler shows it."""

        class Mirror(Raw):
            """Answers each call with its own arguments."""

            def connectionMade(self) -> None:
                self.say(banana.encode([b"pb"]))

            def dataReceived(self, data: bytes) -> None:
                super().dataReceived(data)
                if self.data.endswith(b"\x05\x87"):
                    arguments = self.data[self.data.rindex(b"\x0b\x87") - 2 : -4]
                    self.calls = getattr(self, "calls", 0) + 1
                    self.say(b"\x03\x80\x1b\x87" + bytes([self.calls]) + b"\x81" + arguments)

        self.links(self.b).dial(self.serve(Mirror))
        _, text = await self.b.next("dial_failed")
        self.assertEqual(text, "the shared secrets differ")

    async def test_a_wrong_secret_says_nothing_about_the_right_one(self) -> None:
        """The listener shows no proof to whoever has not shown a right one."""
        address = self.between()
        self.links(self.b, secret=b"a guess").dial(address)
        await self.b.next("dial_failed")
        answers = b"".join(self.wire).count(b"\x1b\x87")
        self.assertEqual(answers, 1, "one answer, to challenge()")


class SeveralTests(LinkCase):
    async def test_one_login_does_not_wait_for_another(self) -> None:
        _, address = self.listening(self.a)
        raw = await self.call(address)
        raw.say(DIALECT)
        late = FakeEnds("late")
        self.links(late).dial(address)
        await late.next("opened")


class SecretsTests(SynchronousTestCase):
    """A new secret, while some nodes still have the previous one."""

    def setUp(self) -> None:
        self.now = 0.0
        self.secrets = Secrets(b"old", lambda: self.now)

    def knows(self, secret: bytes) -> bytes | None:
        return self.secrets.used_in(Proof(SAID, DIALLER, SAID.proof(DIALLER, secret)))

    def test_both_for_a_while(self) -> None:
        self.secrets.change(b"new", 10.0)
        self.assertEqual(self.secrets.current, b"new")
        self.assertEqual(self.knows(b"new"), b"new")
        self.assertEqual(self.knows(b"old"), b"old")
        self.assertIsNone(self.knows(b"other"))
        self.now = 10.0
        self.assertIsNone(self.knows(b"old"))

    def test_the_same_again_changes_nothing(self) -> None:
        """A reload for another reason does not end the time of the previous one, nor begin one."""
        self.secrets.change(b"old", 10.0)
        self.assertIsNone(self.knows(b"new"))
        self.secrets.change(b"new", 10.0)
        self.now = 9.0
        self.secrets.change(b"new", 10.0)
        self.now = 10.0
        self.assertIsNone(self.knows(b"old"))


class RotationTests(LinkCase):
    async def test_nodes_are_given_a_new_one_after_the_other(self) -> None:
        """A node with the previous secret can still call one that has the new one."""
        a, b = FakeEnds("node-a"), FakeEnds("node-b")
        listener, address = self.listening(a)
        dialler = self.links(b)
        listener.secrets.change(b"another secret", 3600.0)
        dialler.dial(address)
        link = await b.next("opened")
        dialler.secrets.change(b"another secret", 3600.0)
        late = FakeEnds("node-late")
        third = self.links(late)
        third.secrets.change(b"another secret", 3600.0)
        third.dial(address)
        await late.next("opened")
        link.send(1, b"still here")
        await a.next("opened")
        await a.next("opened")
        self.assertEqual(await a.next("received"), (1, b"still here"))
