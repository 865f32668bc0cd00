"""Shared subscriptions over several nodes: one group, wherever its members are."""

from mhub.core.principal import Principal
from tests.cluster.simulation import SimNode, Simulation, node_of
from tests.cluster.test_node import Case
from tests.core.world import Client
from tests.helpers import packets as p

GROUP = "$share/g/t/#"


class SharedCase(Case):
    def member(self, node: SimNode, name: str, qos: int = 1, clean: bool = True) -> Client:
        client = self.connect(node, name, clean=clean)
        self.subscribe(node, client, GROUP, qos)
        return client

    def publish(self, node: SimNode, client: Client, numbers: range, qos: int = 1) -> None:
        for n in numbers:
            pid = n + 1 if qos else None
            node.send(client, p.publish("t/1", str(n).encode(), qos, pid))
            node.sim.run(0.05)
        node.sim.run(1.0)

    def got(self, node: SimNode, client: Client) -> list[int]:
        """The numbers of the messages that came, which are acknowledged."""
        found = []
        for _ in range(3):
            for packet in client.take():
                if packet.type == "PUBLISH":
                    found.append(int(packet.payload))
                    if packet.qos:
                        reply = p.puback if packet.qos == 1 else p.pubrec
                        node.send(client, reply(packet.pid or 0))
                elif packet.type == "PUBREL":
                    node.send(client, p.pubcomp(packet.pid or 0))
            node.sim.run(0.2)
        return found


class TurnTests(SharedCase):
    def test_a_node_without_members_shares_among_those_that_have_some(self) -> None:
        for qos in (0, 1, 2):
            with self.subTest(qos=qos):
                sim = self.cluster()
                a, b, c = (sim.nodes[name] for name in "abc")
                members = [(b, self.member(b, "mb", qos)), (c, self.member(c, "mc", qos))]
                publisher = self.connect(a, "p")
                self.publish(a, publisher, range(20), qos)
                at_b, at_c = (self.got(*each) for each in members)
                self.assertEqual(sorted(at_b + at_c), list(range(20)))
                self.assertEqual((len(at_b), len(at_c)), (10, 10))

    def test_members_have_equal_turns_not_nodes(self) -> None:
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        members = [(b, self.member(b, f"mb{n}")) for n in range(3)]
        members.append((c, self.member(c, "mc")))
        self.publish(a, self.connect(a, "p"), range(40))
        self.assertEqual([len(self.got(*each)) for each in members], [10, 10, 10, 10])

    def test_a_plain_subscriber_gets_all_besides(self) -> None:
        sim = self.cluster("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        member, plain = self.member(b, "m"), self.connect(b, "s")
        self.subscribe(b, plain, "t/#", 1)
        self.publish(a, self.connect(a, "p"), range(5))
        self.assertEqual(self.got(b, member), list(range(5)))
        self.assertEqual(self.got(b, plain), list(range(5)))

    def test_who_is_not_connected_only_if_nobody_is(self) -> None:
        sim = self.cluster("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        away = self.member(a, "away", clean=False)
        there = self.member(b, "there", clean=False)
        a.lose(away)
        sim.run(1.0)
        publisher = self.connect(a, "p")
        self.publish(a, publisher, range(5))
        self.assertEqual(self.got(b, there), list(range(5)))
        b.lose(there)
        sim.run(1.0)
        self.publish(a, publisher, range(5, 10))
        found = []
        for node, name in ((a, "away"), (b, "there")):
            found += self.got(node, self.connect(node, name, clean=False))
        self.assertEqual(sorted(found), list(range(5, 10)))

    def test_a_node_that_is_lost_has_no_turn(self) -> None:
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        self.member(b, "mb")
        member = self.member(c, "mc")
        b.crash()
        sim.run(1.0)
        self.publish(a, self.connect(a, "p"), range(10))
        self.assertEqual(self.got(c, member), list(range(10)))


class LocalFirstTests(SharedCase):
    def cluster_of_two(self) -> Simulation:
        sim = self.cluster("ab")
        for node in sim.nodes.values():
            node_of(node).peers.local_first = True
        return sim

    def test_members_on_the_publishers_node_come_first(self) -> None:
        sim = self.cluster_of_two()
        a, b = sim.nodes["a"], sim.nodes["b"]
        at_a, at_b = self.member(a, "ma"), self.member(b, "mb")
        sent = [peer.counters.messages_sent for peer in node_of(a).peers.all]
        self.publish(a, self.connect(a, "pa"), range(10))
        self.assertEqual(self.got(a, at_a), list(range(10)))
        self.assertEqual([peer.counters.messages_sent for peer in node_of(a).peers.all], sent)
        self.publish(b, self.connect(b, "pb"), range(10))
        self.assertEqual(self.got(b, at_b), list(range(10)))
        self.assertEqual(self.got(a, at_a), [])

    def test_others_if_there_are_none(self) -> None:
        sim = self.cluster_of_two()
        a, b = sim.nodes["a"], sim.nodes["b"]
        at_a, at_b = self.member(a, "ma", clean=False), self.member(b, "mb")
        a.lose(at_a)
        sim.run(1.0)
        self.publish(a, self.connect(a, "p"), range(10))
        self.assertEqual(self.got(b, at_b), list(range(10)))


class DrainTests(SharedCase):
    """The last member of a node leaves: what waits for it is for those on other nodes."""

    COUNT = 30

    def waiting(self, clean: bool, durable: bool = True) -> tuple[Simulation, Client, Client]:
        """A member on a, with messages that it has not got; and one on b, which came later."""
        sim = self.cluster("ab", durable=durable)
        a, b = sim.nodes["a"], sim.nodes["b"]
        slow = a.open(max_inflight=5)
        a.send(slow, p.connect("slow", clean=clean))
        sim.run(1.0)
        slow.next("CONNACK")
        self.subscribe(a, slow, GROUP, 1)
        self.publish(a, self.connect(a, "p"), range(self.COUNT))
        return sim, slow, self.member(b, "other")

    def test_by_the_end_of_its_connection(self) -> None:
        """Also what was sent and not acknowledged."""
        for clean in (True, False):
            for durable in (True, False):
                with self.subTest(clean=clean, durable=durable):
                    sim, slow, other = self.waiting(clean, durable)
                    sim.nodes["a"].lose(slow)
                    sim.run(2.0)
                    got = self.got(sim.nodes["b"], other)
                    self.assertEqual(sorted(got), list(range(self.COUNT)))
                    self.assertEqual(len(sim.nodes["a"].store.deliveries), 0)

    def test_by_unsubscribe(self) -> None:
        """What was sent stays with its client, the rest goes."""
        sim, slow, other = self.waiting(True)
        sim.nodes["a"].send(slow, p.unsubscribe(9, GROUP))
        sim.run(2.0)
        self.assertEqual(self.got(sim.nodes["b"], other), list(range(5, self.COUNT)))
        sent = [int(each.payload) for each in slow.take() if each.type == "PUBLISH"]
        self.assertEqual(sent, list(range(5)))

    def test_a_message_that_comes_when_the_member_has_left(self) -> None:
        """The node that it was sent to passes it on."""
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        leaves = self.member(b, "leaves")
        publisher = self.connect(a, "p")
        member = self.member(c, "stays")
        sim.split({"a"}, {"b", "c"})  # a does not hear that the member leaves
        b.send(leaves, p.disconnect())
        for pid in range(1, 5):
            a.send(publisher, p.publish("t/1", str(pid).encode(), 1, pid))
        sim.run(0.5)
        sim.heal()
        sim.run(2.0)
        self.assertEqual(sorted(self.got(c, member)), [1, 2, 3, 4])
        self.assertEqual(sorted(each.pid or 0 for each in publisher.take()), [1, 2, 3, 4])

    def test_it_is_not_lost_if_the_node_crashes_then(self) -> None:
        """What is on its way to the other node stays in the store until that has it."""
        sim, slow, other = self.waiting(False)
        a, b = sim.nodes["a"], sim.nodes["b"]
        sim.split({"a"}, {"b"})
        a.lose(slow)
        sim.run(0.5)
        a.crash()
        for link in sim.links:
            link.coming.clear()  # with all that was on its way
        sim.heal()
        a.start()
        sim.run(5.0)
        found = self.got(b, other)
        found += self.got(a, self.connect(a, "slow", clean=False))
        self.assertEqual(sorted(found), list(range(self.COUNT)))


class RightsTests(SharedCase):
    """Members that may not receive a message, on several nodes."""

    def members(self) -> tuple[Simulation, dict[str, Client]]:
        sim = self.cluster()
        clients = {name: self.member(sim.nodes[name], f"m{name}") for name in "abc"}
        return sim, clients

    def deny(self, sim: Simulation, *client_ids: str) -> None:
        for node in sim.nodes.values():
            node.world.hub.authorize_with(Unheard(client_ids))

    def test_it_goes_to_the_one_who_may(self) -> None:
        sim, clients = self.members()
        self.deny(sim, "ma", "mb")
        for name in "ab":
            self.publish(sim.nodes[name], self.connect(sim.nodes[name], f"p{name}"), range(6))
        found = self.got(sim.nodes["c"], clients["c"])
        self.assertEqual(sorted(found), sorted([*range(6), *range(6)]))
        for name in "ab":
            self.assertEqual(self.got(sim.nodes[name], clients[name]), [])

    def test_a_message_for_nobody_does_not_go_around(self) -> None:
        sim, clients = self.members()
        self.deny(sim, "ma", "mb", "mc")
        self.publish(sim.nodes["a"], self.connect(sim.nodes["a"], "p"), range(6))
        sent = self.sent(sim)
        sim.run(5.0)
        self.assertEqual(self.sent(sim), sent)
        self.assertLessEqual(sent, 6 * 3)
        for name, client in clients.items():
            self.assertEqual(self.got(sim.nodes[name], client), [])

    def sent(self, sim: Simulation) -> int:
        return sum(
            node.world.hub.require_peers().counters().messages_sent for node in sim.nodes.values()
        )


class Unheard:
    """Everybody may do everything, but some clients receive nothing."""

    def __init__(self, client_ids: tuple[str, ...]) -> None:
        self.client_ids = client_ids

    def connect(self, principal: Principal) -> int:
        return 0

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return 0

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return 0

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        return 0

    def receive(self, principal: Principal, topic: str) -> bool:
        return principal.client_id not in self.client_ids

    def rule_of(self, *_: object) -> str:
        return "r"
