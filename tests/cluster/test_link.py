"""Frames over real sockets, and every way in which a link ends."""

import random
import socket
from typing import Any

from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub.cluster import link
from mhub.cluster.contract import LinkEnd
from mhub.cluster.link import PART, split_address
from mhub.config.kinds import join_address
from tests.cluster.ends import FakeEnds, LinkCase, Raw, loop

SIZES = (0, 1, 64, 65536, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 17)


class Clumsy(FakeEnds):
    """A node with a bug in one of the places where links call it."""

    def __init__(self, name: str, where: str) -> None:
        super().__init__(name)
        setattr(self, where, self._stumble)

    def _stumble(self, *arguments: object) -> Any:
        raise RuntimeError("a bug in the node")


class FrameTests(LinkCase):
    async def test_frames_arrive_whole_and_in_order(self) -> None:
        """Whatever their sizes, and whether they had to be cut or not."""
        _, at_b = await self.linked()
        rng = random.Random(7)
        bodies = [rng.randbytes(size) for size in rng.sample(SIZES, len(SIZES))]
        for kind, body in enumerate(bodies):
            at_b.send(kind, body)
        for kind, body in enumerate(bodies):
            self.assertEqual(await self.a.next("received"), (kind, body))

    async def test_both_sides_send(self) -> None:
        at_a, at_b = await self.linked()
        at_a.send(1, b"from a")
        at_b.send(2, b"from b")
        self.assertEqual(await self.b.next("received"), (1, b"from a"))
        self.assertEqual(await self.a.next("received"), (2, b"from b"))

    async def test_kinds_are_any_number(self) -> None:
        at_a, _ = await self.linked()
        for kind in (0, 127, 128, 65536, 2**31, 2**40):
            at_a.send(kind, b"")
            self.assertEqual(await self.b.next("received"), (kind, b""))

    async def test_each_side_knows_who_dialled(self) -> None:
        at_a, at_b = await self.linked()
        self.assertEqual((at_a.dialled, at_b.dialled), (False, True))

    async def test_nothing_waits_to_be_sent_together(self) -> None:
        """TCP_NODELAY: a frame does not wait for the acknowledgement of the one before."""
        for end in await self.linked():
            self.assertTrue(end._broker.transport.getTcpNoDelay())

    async def test_a_frame_sent_in_opened_arrives(self) -> None:
        class Eager(FakeEnds):
            def opened(self, link: LinkEnd, hello: bytes) -> None:
                link.send(9, self.name.encode())

        a, b = Eager("eager-a"), Eager("eager-b")
        _, address = self.listening(a)
        self.links(b).dial(address)
        self.assertEqual(await a.next("received"), (9, b"eager-b"))
        self.assertEqual(await b.next("received"), (9, b"eager-a"))

    async def test_many_links_at_once(self) -> None:
        _, address = self.listening(self.a)
        others = [FakeEnds(f"node-{number}") for number in range(10)]
        for other in others:
            self.links(other).dial(address)
        for other in others:
            (await other.next("opened")).send(1, other.name.encode())
        got = [(await self.a.next("received"))[1].decode() for _ in others]
        self.assertEqual(sorted(got), sorted(other.name for other in others))


class DialTests(LinkCase):
    async def test_host_names(self) -> None:
        _, address = self.listening(self.a)
        self.links(self.b).dial(address.replace("127.0.0.1", "localhost"))
        await self.b.next("opened")

    async def test_ipv6(self) -> None:
        links = self.links(self.a, listen_host="::1")
        try:
            port = links.listen()
        except CannotListenError:
            raise SkipTest("this machine has no IPv6") from None
        self.links(self.b).dial(f"[::1]:{port}")
        await self.b.next("opened")
        self.assertIn("[::1]:", (await self.a.next("opened")).address)

    async def test_nobody_there(self) -> None:
        """A dial that reaches nobody fails once, with a reason, and after dial() has returned."""
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{bound.getsockname()[1]}"
            self.links(self.b).dial(address)
            self.assertEqual(self.b.events, [])
            failed, text = await self.b.next("dial_failed")
        self.assertEqual(failed, address)
        self.assertIn("refused", text)

    async def test_not_an_address(self) -> None:
        links = self.links(self.b)
        for address in (
            "",
            "node-a",
            "node-a:",
            ":7000",
            "::1:7000",
            "node-a:70000",
            "[]:1",
            "a:-1",
        ):
            links.dial(address)
            self.assertEqual((await self.b.next("dial_failed"))[0], address)

    async def test_a_name_that_cannot_be(self) -> None:
        self.links(self.b).dial("no..such..name:7000")
        await self.b.next("dial_failed")

    async def test_nobody_answers(self) -> None:
        """A dial ends with its time, whatever the network does with it."""
        with socket.socket() as full:
            # Once its queue is full, a listener that accepts nobody leaves callers unanswered.
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            callers = [socket.socket() for _ in range(8)]
            for caller in callers:
                caller.setblocking(False)
                caller.connect_ex(address)
                self.addCleanup(caller.close)
            self.links(self.b, connect_timeout_s=0.1).dial(f"127.0.0.1:{address[1]}")
            _, text = await self.b.next("dial_failed")
        self.assertEqual(text, "no connection within 0.1 s")

    def test_the_port_is_taken(self) -> None:
        _, address = self.listening(self.a)
        port = int(address.rpartition(":")[2])
        self.assertRaises(CannotListenError, self.links(self.b, listen_port=port).listen)


class EndTests(LinkCase):
    async def test_close(self) -> None:
        """The other side and both logs hear why; the one who closed does not hear lost()."""
        at_a, at_b = await self.linked()
        at_b.close("there is a better link")
        link, text = await self.a.next("lost")
        await at_b.gone
        self.assertIs(link, at_a)
        self.assertIn("there is a better link", text)
        self.assertNotIn("lost", self.b.events)
        self.assertEqual(len(self.lines("there is a better link", "(node-a)")), 1)
        self.assertEqual(len(self.lines("there is a better link", "(node-b)")), 1)

    async def test_what_was_sent_before_arrives_before(self) -> None:
        _, at_b = await self.linked()
        at_b.send(1, bytes(5 * PART))
        at_b.close("enough")
        self.assertEqual(await self.a.next("received"), (1, bytes(5 * PART)))
        await self.a.next("lost")

    async def test_both_close(self) -> None:
        """Nobody hears lost(), and nobody waits for the other to hang up first."""
        at_a, at_b = await self.linked()
        at_a.close("one of two")
        at_b.close("one of two")
        await at_a.gone
        await at_b.gone
        self.assertNotIn("lost", self.a.events + self.b.events)

    async def test_after_close_nothing_is_heard_nor_said(self) -> None:
        at_a, at_b = await self.linked()
        at_a.send(1, b"on its way")
        at_b.close("not listening any more")
        at_b.close("again")
        at_b.send(2, b"too late")
        await self.a.next("lost")
        await at_b.gone
        self.assertNotIn("received", self.a.events + self.b.events)
        self.assertEqual(self.lines("again"), [])

    async def test_close_within_received(self) -> None:
        class Fickle(FakeEnds):
            def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
                super().received(link, kind, body)
                link.close("one is enough")

        fickle = Fickle("fickle")
        _, address = self.listening(fickle)
        self.links(self.b).dial(address)
        at_b = await self.b.next("opened")
        for kind in range(5):
            at_b.send(kind, b"")
        await self.b.next("lost")
        self.assertEqual(fickle.events, ["opened", "received"])

    async def test_the_connection_breaks(self) -> None:
        at_a, at_b = await self.linked()
        at_b._broker.transport.abortConnection()
        self.assertIs((await self.a.next("lost"))[0], at_a)
        self.assertIs((await self.b.next("lost"))[0], at_b)

    async def test_the_other_side_does_not_hang_up(self) -> None:
        """It is cut off after a while, also if it does not read what it is told."""
        self.patch(link, "LINGER_S", 0.01)
        at_a, at_b = await self.linked()
        at_b._broker.transport.pauseProducing()
        at_a.send(1, bytes(64 * PART))
        at_a.close("goodbye")
        await at_a.gone

    async def test_a_frame_that_is_too_large(self) -> None:
        """Ends the link, with the reason to both, before all of it was taken in."""
        _, address = self.listening(self.a, max_frame_bytes=3 * PART)
        self.links(self.b).dial(address)
        at_b = await self.b.next("opened")
        for _ in range(2):
            at_b.send(1, bytes(3 * PART))
            await self.a.next("received")
        at_b.send(1, bytes(3 * PART + 1))
        _, here = await self.a.next("lost")
        _, there = await self.b.next("lost")
        self.assertIn(f"more than {3 * PART} bytes", here)
        self.assertIn(f"more than {3 * PART} bytes", there)
        self.assertEqual(self.a.events, ["opened", "received", "received", "lost"])


class BugTests(LinkCase):
    """An error within a node ends one link: not the process, and not the other node."""

    async def check(self, where: str) -> None:
        clumsy = Clumsy("clumsy", where)
        _, address = self.listening(clumsy)
        self.links(self.b).dial(address)
        at_b = await self.b.next("opened")
        at_b.send(1, b"")
        _, there = await self.b.next("lost")
        _, here = await clumsy.next("lost")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertIn("an error within the node", there)
        self.assertNotIn("a bug in the node", there)
        self.assertIn("an error within the node", here)

    async def test_in_received(self) -> None:
        await self.check("received")

    async def test_in_opened(self) -> None:
        await self.check("opened")

    async def test_in_lost(self) -> None:
        clumsy = Clumsy("clumsy", "lost")
        links, address = self.listening(clumsy)
        self.links(self.b).dial(address)
        at_b = await self.b.next("opened")
        (await clumsy.next("opened")).send(1, b"")
        await self.b.next("received")
        at_b.close("now stumble")
        await at_b.gone
        await links.stop()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    async def test_in_a_login(self) -> None:
        """Neither side gets a link, and the dialler hears that there will be none."""
        for where in ("hello", "refusal", "name_of"):
            _, address = self.listening(Clumsy("clumsy", where))
            self.links(self.b).dial(address)
            _, text = await self.b.next("dial_failed")
            self.assertIn("an internal error", text)
            self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    async def test_in_the_login_of_the_dialler(self) -> None:
        _, address = self.listening(self.a)
        for where in ("hello", "refusal", "name_of"):
            clumsy = Clumsy("clumsy", where)
            self.links(clumsy).dial(address)
            _, text = await clumsy.next("dial_failed")
            self.assertIn("an internal error", text)
            self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class StopTests(LinkCase):
    async def test_stop(self) -> None:
        """All links are closed, nobody can call any more, and the node hears nothing."""
        links, address = self.listening(self.a)
        self.links(self.b).dial(address)
        at_b = await self.b.next("opened")
        await self.a.next("opened")
        await links.stop()
        _, text = await self.b.next("lost")
        self.assertIn("shutting down", text)
        self.assertEqual(self.a.events, ["opened"])
        self.links(self.b).dial(address)
        await self.b.next("dial_failed")
        await at_b.gone

    async def test_dials_under_way_end(self) -> None:
        address = self.serve(Raw)
        links = self.links(self.b)
        links.dial(address)
        links.dial("[::ffff:127.0.0.1]:9")
        await links.stop()
        links.dial(address)
        await deferLater(loop, 0.01)
        self.assertEqual(self.b.events, [])

    async def test_a_login_under_way_ends(self) -> None:
        made: list[Protocol] = []

        class Mute(Raw):
            def connectionMade(self) -> None:
                made.append(self)

        links = self.links(self.b)
        links.dial(self.serve(Mute))
        while not made:
            await deferLater(loop, 0.001)
        await links.stop()
        self.assertEqual(self.b.events, [])

    async def test_a_stop_without_a_start(self) -> None:
        await self.links(self.a).stop()

    async def test_the_port_is_free_again(self) -> None:
        links, address = self.listening(self.a)
        await links.stop()
        port = int(address.rpartition(":")[2])
        self.assertEqual(self.links(self.b, listen_port=port).listen(), port)


class AddressTests(SynchronousTestCase):
    def test_there_and_back(self) -> None:
        for host, port in (("node-a", 1), ("10.0.0.1", 65535), ("::1", 7000)):
            self.assertEqual(split_address(join_address(host, port)), (host, port))
