"""The node as a service: what it is told by `mhub ctl cluster`, and what it answers."""

import json
from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames
from mhub.cluster.contract import OLDEST, PROTOCOL
from mhub.cluster.frames import pack, with_data
from mhub.cluster.service import ClusterService
from mhub.config.cluster import ClusterSettings
from mhub.core.limits import Limits
from mhub.operations.contract import NotThere, OperationError, Reply
from mhub.operations.operations import Operations
from tests.core.world import World
from tests.operations.around import Around, Pauses


class LinkEnd:
    dialled = False
    address = "127.0.0.1:7884"

    def send(self, kind: int, body: bytes) -> None: ...

    def close(self, text: str) -> None: ...


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.cluster = self.service()
        self.patch(self.cluster, "dial", lambda address: None)

    def service(self, **settings: Any) -> ClusterService:
        return ClusterService(
            ClusterSettings(name="plant", node="a", secret="s" * 16, **settings),
            self.world.hub,
            Clock(),
            lambda: self.world.now,
            lambda listener: Limits(),
        )

    def link(self, name: str, dialled: str = "", address: str = "") -> LinkEnd:
        """Another node, as far as one can tell from here; `dialled` is where it was called."""
        link = LinkEnd()
        link.dialled = bool(dialled)
        link.address = dialled or address or link.address
        hello = pack(
            protocol=PROTOCOL,
            oldest=OLDEST,
            cluster="plant",
            node=name,
            instance=f"{name}1",
            address=link.address,
            version="0",
        )
        node = self.cluster.node
        self.assertEqual(node.refusal(hello), "")
        node.opened(link, hello)
        node.received(link, frames.RESUME, pack(epoch="l", received=["", 0], table=["", 0]))
        node.received(link, frames.TABLE, pack(at=-2, to=1, number=1, set=[["ft/#", 3]]))
        node.received(link, frames.DIGESTS, pack(digests=[0] * 256))
        return link

    @property
    def operations(self) -> Operations:
        """As the control socket has them."""
        around = Around(self.world.hub)
        around.cluster = self.cluster
        return Operations(self.world.hub, around, lambda: self.world.now, Pauses())


class StatusTests(Case):
    def member(self) -> dict[str, Any]:
        (described,) = self.operations.cluster_status()["members"]
        found: dict[str, Any] = described
        return found

    def test_a_queue_that_is_full(self) -> None:
        link = self.link("b")
        self.cluster.node.lost(link, "reset")
        peers = self.cluster.node.peers
        peers.limits.max_queued_messages = 2
        publisher = self.world.client("p", 5)
        for _ in range(5):
            publisher.publish("t/1", b"x", 1)
        publisher.publish("t/1", b"x")
        said = self.member()
        self.assertEqual((said["queued_messages"], said["queued_bytes"]), (2, 2 * len("t/1x")))
        self.assertEqual((said["dropped"], said["dropped_qos0"], said["refused"]), (1, 1, 3))
        self.assertEqual(self.operations.cluster_status()["refused"], 3)
        peers.limits.refuse_when_full = False
        publisher.publish("t/1", b"x", 2)
        said = self.member()
        self.assertEqual((said["dropped"], said["dropped_full"], said["refused"]), (2, 1, 3))

    def test_when_a_node_is_called_again(self) -> None:
        node = self.cluster.node
        link = self.link("b")
        self.assertEqual((self.member()["calls_failed"], self.member()["next_call_s"]), (0, None))
        node.lost(link, "reset")
        for failures in (1, 2, 3):
            self.world.now += 20.0
            node.tick(self.world.now)
            node.dial_failed(link.address, "refused")
            said = self.member()
            self.assertEqual(said["calls_failed"], failures)
            self.assertGreater(said["next_call_s"], 0.3 * 2 ** (failures - 1))


class NameServerTests(Case):
    """The servers of `dns` are asked for addresses, and not only for SRV records."""

    def test_set(self) -> None:
        names = self.service(dns=("127.0.0.1:5353", "[::1]:53"))._links.names
        assert names is not None
        self.assertEqual(names._dns.servers, [("127.0.0.1", 5353), ("::1", 53)])

    def test_not_set(self) -> None:
        self.assertIsNone(self.service()._links.names)


class ForgetTests(Case):
    def refused(self, name: str) -> str:
        with self.assertRaises(OperationError) as caught:
            self.operations.cluster_forget(name)
        return str(caught.exception)

    def test_a_node_that_is_up(self) -> None:
        self.link("b")
        self.assertEqual(self.refused("b"), "node b is up: stop it or let it leave first")
        self.assertEqual(self.cluster.node.members["b"].state, "up")

    def test_a_node_that_is_silent(self) -> None:
        """As long as there is a link, it may be back at any moment."""
        self.link("b")
        self.world.now += 5.0
        self.cluster.node.tick(self.world.now)
        self.assertEqual(self.refused("b"), "node b is suspect: stop it or let it leave first")

    def test_a_node_that_is_not_linked(self) -> None:
        link = self.link("b")
        self.cluster.node.lost(link, "reset")
        self.world.client("p").publish("t/1", b"x", 1)
        answer = self.operations.cluster_forget("b")
        self.assertEqual(answer, {"node": "b", "messages": 1, "routes": 1})
        self.assertEqual(self.cluster.node.members, {})

    def test_a_node_that_is_none(self) -> None:
        self.assertIn('there is no node "c"', self.refused("c"))
        self.assertEqual(self.refused("a"), "node a is this node: let it leave, or stop it")


class ClientTests(Case):
    def test_a_client_of_another_node(self) -> None:
        """Who asks is told where it is."""
        link = self.link("b")
        table = pack(at=1, to=2, number=2, set=[["cpump", 1 << 20]])
        self.cluster.node.received(link, frames.TABLE, table)
        with self.assertRaises(NotThere) as caught:
            self.operations.kick("pump")
        self.assertEqual(str(caught.exception), "its session is at node b: ask there")

    def test_status(self) -> None:
        self.link("b")
        told = self.operations.status().cluster
        assert told is not None
        self.assertEqual(
            (told.cluster, told.node, told.members_up, told.members), ("plant", "a", 1, 1)
        )


class QuestionTests(Case):
    """Questions to other nodes and from them."""

    def setUp(self) -> None:
        super().setUp()
        self.far = self.link("b")
        self.sent: list[tuple[int, bytes]] = []
        self.patch(self.far, "send", lambda kind, body: self.sent.append((kind, body)))

    def took(self, kind: int) -> list[bytes]:
        return [body for sent, body in self.sent if sent == kind]

    def ask(self, node: str) -> "Deferred[Reply]":
        async def wait() -> Reply:
            return await self.cluster.ask(node, "x", {"y": 1}, 2.0)

        return Deferred.fromCoroutine(wait())

    def hear(self, name: str = "x") -> tuple[dict[str, Any], bytes]:
        """The answer to a question."""
        node = self.cluster.node
        query = pack(id=1, name=name, arguments={"y": 1}, within_s=2.0)
        node.received(self.far, frames.QUERY, query)
        head, _, data = self.took(frames.ANSWER)[-1].partition(b"\n")
        return json.loads(head), data

    def test_an_answer(self) -> None:
        asked = self.ask("b")
        self.assertNoResult(asked)
        [query] = self.took(frames.QUERY)
        head = {"id": json.loads(query)["id"], "last": True, "error": ""}
        self.cluster.node.received(self.far, frames.ANSWER, with_data(b"[1]", **head))
        self.assertEqual(self.successResultOf(asked), Reply(b"[1]"))

    def test_a_node_that_is_not_there(self) -> None:
        self.assertEqual(self.successResultOf(self.ask("c")).error, "Unavailable")
        self.cluster.node.lost(self.far, "reset")
        self.assertEqual(self.successResultOf(self.ask("b")).error, "Unavailable")

    def test_whoever_asked_is_gone(self) -> None:
        asked = self.ask("b")
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.assertEqual(len(self.took(frames.ANSWER_MORE)), 1)
        self.cluster.node.lost(self.far, "reset")

    def test_answers_and_errors(self) -> None:
        async def respond(name: str, arguments: Mapping[str, object]) -> bytes:
            if name == "none":
                raise NotThere("there is none")
            if name == "defect":
                raise KeyError("z")
            return json.dumps([name, arguments]).encode()

        self.cluster.serve(respond)
        head, data = self.hear()
        self.assertEqual((head["error"], json.loads(data)), ("", ["x", {"y": 1}]))
        head, data = self.hear("none")
        self.assertEqual((head["error"], data), ("NotThere", b"there is none"))
        head, data = self.hear("defect")
        self.assertEqual(head["error"], "OperationError")
        self.assertIn(b"a defect of node a", data)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_an_answer_that_takes_its_time_is_cancelled(self) -> None:
        ended = []
        waiting: Deferred[bytes] = Deferred(lambda _: ended.append(True))

        async def respond(name: str, arguments: Mapping[str, object]) -> bytes:
            return await waiting

        self.cluster.serve(respond)
        query = pack(id=1, name="x", arguments={}, within_s=2.0)
        self.cluster.node.received(self.far, frames.QUERY, query)
        self.cluster.node.received(self.far, frames.ANSWER_MORE, pack(id=1, stop=True))
        self.assertEqual((ended, self.took(frames.ANSWER)), ([True], []))

    def test_a_client_of_another_node_that_changes(self) -> None:
        changed: list[str] = []
        self.cluster.watch_clients(changed.append)
        node = self.cluster.node
        node.received(self.far, frames.TABLE, pack(at=1, to=3, set=[["cx", 3], ["ft", 1]]))
        node.received(self.far, frames.TABLE, pack(at=3, to=4, set=[["cx", 0]]))
        self.assertEqual(changed, ["x", "x"])
