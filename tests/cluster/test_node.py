"""Nodes that find each other, and what passes between them: in one process, step by step."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.member import LEFT
from mhub.cluster.migration.target import ARRIVING
from mhub.core.events import NODE
from tests.cluster.simulation import SimNode, Simulation, node_of
from tests.core.world import Client
from tests.helpers import packets as p


class Case(SynchronousTestCase):
    simulation = Simulation

    def cluster(self, names: str = "abc", seed: int = 1, **options: Any) -> Simulation:
        sim = self.simulation(seed, names, **options)
        sim.start()
        sim.run(3.0)
        self.assertTrue(sim.whole(), [n.lines for n in sim.nodes.values()])
        return sim

    def connect(self, node: SimNode, client_id: str, version: int = 4, **options: Any) -> Client:
        client = node.open(version)
        node.send(client, p.connect(client_id, version, **options))
        node.sim.run(1.0)
        client.connack = client.next("CONNACK")
        self.assertEqual(client.connack.reason, 0)
        return client

    def subscribe(self, node: SimNode, client: Client, topic_filter: str, qos: int = 0) -> None:
        node.send(client, p.subscribe(1, (topic_filter, qos), version=client.version))
        node.sim.run(1.0)
        self.assertEqual(client.next("SUBACK").pid, 1)


class PublishTests(Case):
    def test_a_message_reaches_subscribers_on_other_nodes(self) -> None:
        for qos in (0, 1, 2):
            for durable in (False, True):
                with self.subTest(qos=qos, durable=durable):
                    sim = self.cluster(durable=durable)
                    a, b = sim.nodes["a"], sim.nodes["b"]
                    subscriber = self.connect(b, "s")
                    self.subscribe(b, subscriber, "t/#", qos)
                    publisher = self.connect(a, "p")
                    a.send(publisher, p.publish("t/1", b"x", qos, 7 if qos else None))
                    sim.run(1.0)
                    found = subscriber.take()
                    self.assertEqual([(f.payload, f.qos) for f in found], [(b"x", qos)])
                    replies = [packet.type for packet in publisher.take()]
                    self.assertEqual(replies, [[], ["PUBACK"], ["PUBREC"]][qos])

    def test_retained_messages_are_everywhere(self) -> None:
        sim = self.cluster()
        a, c = sim.nodes["a"], sim.nodes["c"]
        publisher = self.connect(a, "p")
        a.send(publisher, p.publish("r/1", b"x", 1, 1, True))
        a.send(publisher, p.publish("r/2", b"y", 0, None, True))
        sim.run(1.0)
        late = self.connect(c, "s")
        c.send(late, p.subscribe(1, ("r/#", 1)))
        sim.run(1.0)
        found = {f.topic: f.payload for f in late.take() if f.type == "PUBLISH"}
        self.assertEqual(found, {"r/1": b"x", "r/2": b"y"})

    def test_one_member_of_a_shared_group_in_the_whole_cluster(self) -> None:
        sim = self.cluster()
        members = []
        for name in "abc":
            node = sim.nodes[name]
            member = self.connect(node, "m" + name)
            self.subscribe(node, member, "$share/g/t/#", 1)
            members.append((node, member))
        a = sim.nodes["a"]
        publisher = self.connect(a, "p")
        for n in range(30):
            a.send(publisher, p.publish("t/1", str(n).encode(), 1, n + 1))
            sim.run(0.1)
        counts = []
        everything = []
        for _, member in members:
            payloads = [int(packet.payload) for packet in member.take()]
            counts.append(len(payloads))
            everything += payloads
        self.assertEqual(sorted(everything), list(range(30)))
        self.assertEqual(counts, [10, 10, 10])


class SessionCapTests(Case):
    def test_a_session_of_another_node_may_come_to_one_that_is_full(self) -> None:
        sim = self.cluster("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(a, "c", clean=False)
        node_of(b).hub.max_sessions = 1
        self.connect(b, "d")
        refused = b.open(4)
        b.send(refused, p.connect("e", 4))
        self.assertEqual(refused.next("CONNACK").reason, 3)
        a.lose(client)
        again = self.connect(b, "c", clean=False)
        assert again.connack is not None
        self.assertTrue(again.connack.session_present)


class ResumeTests(Case):
    def test_a_link_that_breaks_neither_loses_nor_doubles_nor_mixes(self) -> None:
        for durable in (False, True):
            for qos in (1, 2):
                with self.subTest(durable=durable, qos=qos):
                    sim = self.cluster("ab", durable=durable)
                    a, b = sim.nodes["a"], sim.nodes["b"]
                    subscriber = self.connect(b, "s", clean=False)
                    self.subscribe(b, subscriber, "t", qos)
                    publisher = self.connect(a, "p", clean=False)
                    came = []
                    for n in range(1, 201):
                        a.send(publisher, p.publish("t", str(n).encode(), qos, n))
                        if n % 40 == 20:
                            sim.run(0.005)  # some are on their way, others confirmed
                            sim.cut("a", "b")
                        sim.run(0.01)
                        for packet in publisher.take():
                            if packet.type == "PUBREC":
                                a.send(publisher, p.pubrel(packet.pid))
                        came += self.answer(b, subscriber)
                    for _ in range(50):
                        sim.run(0.1)
                        came += self.answer(b, subscriber)
                    self.assertEqual(came, list(range(1, 201)))

    def answer(self, node: SimNode, client: Client) -> list[int]:
        """What came, acknowledged."""
        came = []
        for packet in client.take():
            if packet.type == "PUBREL":
                node.send(client, p.pubcomp(packet.pid))
            else:
                came.append(int(packet.payload))
                ack = p.puback if packet.qos == 1 else p.pubrec
                node.send(client, ack(packet.pid))
        return came


class SilenceTests(Case):
    """A node that says nothing, on a link that is there."""

    def test_a_publisher_waits_until_the_node_is_suspected(self) -> None:
        """Then its share is kept, and comes when it is back."""
        for durable in (False, True):
            for qos in (1, 2):
                with self.subTest(durable=durable, qos=qos):
                    sim = self.cluster(durable=durable)
                    a, c = sim.nodes["a"], sim.nodes["c"]
                    subscriber = self.connect(c, "s", clean=False)
                    self.subscribe(c, subscriber, "t", 1)
                    publisher = self.connect(a, "p", clean=False)
                    sim.split({"c"})
                    a.send(publisher, p.publish("t", b"1", qos, 1))
                    sim.run(1.5)
                    self.assertEqual(publisher.take(), [])
                    sim.run(2.0)  # suspect_s is 3
                    self.assertEqual([packet.pid for packet in publisher.take()], [1])
                    a.send(publisher, p.publish("t", b"2", qos, 2))
                    sim.run(0.3)
                    self.assertEqual([packet.pid for packet in publisher.take()], [2])
                    assert a.node is not None
                    self.assertTrue(a.node.peers.peers["c"].up)
                    sim.heal()
                    sim.run(1.0)
                    self.assertEqual([f.payload for f in subscriber.take()], [b"1", b"2"])
                    a.send(publisher, p.publish("t", b"3", qos, 3))
                    sim.run(1.0)
                    self.assertEqual([f.payload for f in subscriber.take()], [b"3"])
                    self.assertEqual([e for e in a.store.deliveries.values() if e], [])

    def test_who_does_not_need_it_does_not_wait(self) -> None:
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        subscriber = self.connect(b, "s")
        self.subscribe(b, subscriber, "t", 2)
        publisher = self.connect(a, "p")
        sim.split({"c"})
        for n in range(1, 31):
            a.send(publisher, p.publish("t", b"x", n % 3, n if n % 3 else None))
        sim.run(0.3)
        self.assertEqual(len(publisher.take()), 20)
        self.assertEqual(len(subscriber.take()), 30)

    def test_a_session_moves_between_the_others(self) -> None:
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(a, "s", clean=False)
        self.subscribe(a, client, "t", 2)
        a.lose(client)
        sim.split({"c"})
        again = b.open(4)
        b.send(again, p.connect("s", clean=False))
        sim.run(3.5)  # suspect_s, and a tick
        self.assertTrue(again.next("CONNACK").session_present)


class LeaveTests(Case):
    def test_a_node_that_left_is_not_called_while_it_stops(self) -> None:
        """It would refuse each call, and both sides would log that."""
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        called: list[str] = []
        for each in (a, b):
            each.dial = called.append  # type: ignore[method-assign, assignment]
        assert c.node is not None
        c.enter()
        c.node.leave()
        c.leave()
        sim.run(2.0)
        self.assertEqual(called, [])
        for each in (a, b):
            event = each.world.diary.of(NODE)[-1]
            self.assertEqual((event.node, event.cause), ("c", LEFT))
            self.assertNotIn("c", each.node.members if each.node is not None else "c")
        sim.run(10.0)
        self.assertIn(c.address, called)  # it may come back; seldom

    def test_a_session_that_moves_at_that_moment_is_there(self) -> None:
        """Nobody has to wait for the node that left to be sure of packet ids."""
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        client = self.connect(b, "p", clean=False)
        b.send(client, p.publish("t", b"x", 2, 1))
        sim.run(1.0)
        b.lose(client)
        assert c.node is not None
        c.enter()
        c.node.leave()
        c.leave()
        again = a.open(4)
        a.send(again, p.connect("p", clean=False))
        sim.run(0.5)
        self.assertTrue(again.next("CONNACK").session_present)


class ExpiryTests(Case):
    """Nodes tell each other what is left, and not by the time of day, which may be a wrong one."""

    def moved(self, ahead_s: float, seconds: int, wait_s: float) -> list[int]:
        """What is left of a message's expiry when its session has moved; [] if it is gone."""
        sim = self.simulation(1, "ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        a.skew_s, b.skew_s = 0.0, ahead_s
        sim.start()
        sim.run(3.0)
        props = [(p.Prop.SESSION_EXPIRY, 1000)]
        subscriber = self.connect(a, "s", 5, clean=False, props=props)
        self.subscribe(a, subscriber, "t", 1)
        a.lose(subscriber)
        expiry = [(p.Prop.MESSAGE_EXPIRY, seconds)]
        publisher = self.connect(a, "p", 5)
        a.send(publisher, p.publish("t", b"x", 1, 1, props=expiry, version=5))
        a.send(publisher, p.publish("t", b"lasts", 1, 2, version=5))
        sim.run(wait_s)
        again = self.connect(b, "s", 5, clean=False, props=props)
        self.assertTrue(again.connack and again.connack.session_present)
        found = again.take()
        self.assertEqual(found.pop().payload, b"lasts")
        return [packet.prop(p.Prop.MESSAGE_EXPIRY) for packet in found]

    def test_a_session_that_moves(self) -> None:
        for ahead_s in (-3600.0, 0.0, 3600.0):
            with self.subTest(ahead_s=ahead_s):
                (left_s,) = self.moved(ahead_s, 100, 50.0)
                self.assertIn(left_s, (49, 50))
                self.assertEqual(self.moved(ahead_s, 100, 110.0), [])

    def test_a_message_on_a_link(self) -> None:
        sim = self.simulation(1, "ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        a.skew_s, b.skew_s = 0.0, 3600.0
        sim.start()
        sim.run(3.0)
        for here, there, topic in ((a, b, "t/1"), (b, a, "t/2")):
            subscriber = self.connect(there, f"s{there.name}", 5)
            self.subscribe(there, subscriber, topic, 1)
            expiry = [(p.Prop.MESSAGE_EXPIRY, 100)]
            publisher = self.connect(here, f"p{here.name}", 5)
            here.send(publisher, p.publish(topic, b"x", 1, 1, props=expiry, version=5))
            sim.run(1.0)
            self.assertEqual(subscriber.next("PUBLISH").prop(p.Prop.MESSAGE_EXPIRY), 100)


class SessionTests(Case):
    def test_a_node_that_crashed_while_it_took_a_session_does_not_get_it(self) -> None:
        """The client is not there any more; and what it has in flight is where it was."""
        for tenths in range(0, 30, 2):
            with self.subTest(tenths=tenths):
                sim = self.cluster()
                a, b, c = (sim.nodes[name] for name in "abc")
                client = self.connect(a, "s", clean=False)
                self.subscribe(a, client, "t", 2)
                publisher = self.connect(c, "p")
                for n in range(1, 6):
                    c.send(publisher, p.publish("t", str(n).encode(), 2, n))
                sim.run(1.0)
                pids = [packet.pid for packet in client.take()]
                a.lose(client)
                sim.split({"c"})  # so that it takes some time
                b.send(b.open(4), p.connect("s", clean=False))
                while not b.store.deliveries:
                    sim.run(0.001)
                b.crash()
                sim.run(1.0)
                sim.heal()
                b.start()
                while a.node is not None and not a.node.peers.peers["b"].up:
                    sim.run(0.001)
                sim.run(tenths / 1000)
                impatient = a.open(4)
                a.send(impatient, p.connect("s", clean=False))
                a.lose(impatient)
                sim.run(5.0)
                again = self.connect(a, "s", clean=False)
                self.assertTrue(again.connack and again.connack.session_present)
                found = [(packet.pid, packet.dup) for packet in again.take()]
                self.assertEqual(found, [(pid, True) for pid in pids])
                self.assertNotIn("s", b.world.hub.sessions)

    def test_two_halves_of_a_cluster_use_other_packet_ids(self) -> None:
        """The client has packet ids open from the one when it meets the other.

        Node b does not know whether its session was taken: the client gets a new one there.
        """
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(b, "s", clean=False)
        self.subscribe(b, client, "t", 2)
        publishers = {node.name: self.connect(node, f"p{node.name}") for node in (a, b)}
        b.send(publishers["b"], p.publish("t", b"first", 2, 1))
        sim.run(1.0)
        first = client.take()[0].pid
        b.lose(client)
        client = a.open(4)
        a.send(client, p.connect("s", clean=False))
        while not (found := client.take()):
            sim.run(0.0005)
        self.assertTrue(found[0].session_present)
        sim.split({"b"})  # which has not heard that its session is safe
        self.assertIn("s", b.world.hub.sessions)
        sim.run(10.0)
        found += client.take()
        a.send(publishers["a"], *(p.publish("t", b"a", 2, n) for n in range(1, 6)))
        sim.run(1.0)
        sent = [packet.pid for packet in found + client.take() if packet.type == "PUBLISH"]
        self.assertEqual((sent[0], len(sent)), (first, 6))
        a.lose(client)
        client = b.open(4)
        b.send(client, p.connect("s", clean=False))
        sim.run(13.0)
        self.assertFalse(client.next("CONNACK").session_present)
        b.send(client, p.subscribe(1, ("t", 2)))
        sim.run(1.0)
        b.send(publishers["b"], *(p.publish("t", b"b", 2, n) for n in range(2, 7)))
        sim.run(1.0)
        found = [packet for packet in client.take() if packet.type == "PUBLISH"]
        self.assertEqual([each.payload for each in found].count(b"b"), 5)
        self.assertEqual(set(sent) & {packet.pid for packet in found}, set())

    def test_two_parts_of_a_session_that_were_used_become_one(self) -> None:
        """What a client has had from the one does not come again with the other."""
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(b, "s", clean=False)
        self.subscribe(b, client, "t", 1)
        b.lose(client)
        sim.split({"c"})  # so that it takes some time
        client = a.open(4)
        a.send(client, p.connect("s", clean=False))
        while node_of(a).migration.targets["s"].state != ARRIVING:
            sim.run(0.0005)
        sim.split({"b"})
        sim.run(22.0)
        self.assertFalse(client.next("CONNACK").session_present)
        self.subscribe(a, client, "t", 1)
        publisher = self.connect(a, "p")
        for n in range(1, 6):
            a.send(publisher, p.publish("t", str(n).encode(), 1, n))
        sim.run(1.0)
        found = client.take()
        self.assertEqual([int(packet.payload) for packet in found], [1, 2, 3, 4, 5])
        for packet in found:
            a.send(client, p.puback(packet.pid))
        a.lose(client)
        sim.run(0.2)
        sim.heal()
        sim.run(20.0)
        again = self.connect(b, "s", clean=False)
        sim.run(1.0)
        self.assertEqual(again.take(), [])
        sim.run(5.0)
        self.assertEqual(b.store.deliveries, {})
        self.assertIsNone(b.world.hub.sessions["s"].intake)
        self.assertNotIn("s", a.world.hub.sessions)

    def test_a_session_of_which_not_all_came_is_not_there(self) -> None:
        """Its node is lost while it gives: the client must not go on with half of it."""
        for is_whole in (False, True):
            with self.subTest(is_whole=is_whole):
                sim = self.cluster()
                a, b = sim.nodes["a"], sim.nodes["b"]
                client = self.connect(a, "s", clean=False)
                self.subscribe(a, client, "t", 2)
                publisher = self.connect(a, "p")
                a.send(publisher, p.publish("t", b"1", 2, 1))
                sim.run(1.0)
                pid = client.next("PUBLISH").pid
                a.lose(client)
                again = b.open(4)
                b.send(again, p.connect("s", clean=False))
                if is_whole:
                    while "s" not in b.world.hub.sessions:
                        sim.run(0.0001)
                else:
                    target = node_of(b).migration.targets["s"]
                    while target.session is None or not target.session.inflight:
                        sim.run(0.0001)
                sim.cut("a", "b")
                a.crash()
                sim.run(8.0)
                found = again.take()
                self.assertEqual(bool(found[0].session_present), is_whole)
                expected = [(pid, True)] if is_whole else []
                self.assertEqual([(packet.pid, packet.dup) for packet in found[1:]], expected)

    def test_what_a_source_had_when_it_crashed_comes_late_and_once(self) -> None:
        """The client has a new session meanwhile, which may be on a third node by then."""
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        client = self.connect(a, "s", clean=False)
        self.subscribe(a, client, "t", 1)
        a.lose(client)
        publisher = self.connect(a, "p")
        for n in range(1, 6):
            a.send(publisher, p.publish("t", str(n).encode(), 1, n))
        sim.run(1.0)
        sim.split({"c"})  # so that it takes some time
        again = b.open(4)
        b.send(again, p.connect("s", clean=False))
        while not b.store.deliveries:
            sim.run(0.001)
        a.crash()
        sim.heal()
        sim.run(8.0)
        (packet,) = again.take()
        self.assertEqual((packet.type, packet.session_present), ("CONNACK", False))
        last = self.connect(c, "s", clean=False)
        a.start()
        sim.run(5.0)
        found = last.take()
        self.assertEqual([int(packet.payload) for packet in found], [1, 2, 3, 4, 5])
        for packet in found:
            c.send(last, p.puback(packet.pid))
        sim.run(5.0)
        self.assertEqual(last.take(), [])
        for node in (a, b, c):
            self.assertEqual(node.store.deliveries, {})

    def test_a_client_that_goes_to_and_fro_leaves_nothing_behind(self) -> None:
        """Two nodes have the same state for a while, and each gives it to the other."""
        sim = self.cluster()
        a, b, c = (sim.nodes[name] for name in "abc")
        client = self.connect(a, "s", clean=False)
        self.subscribe(a, client, "t", 1)
        publisher = self.connect(c, "p")
        for n in range(1, 6):
            c.send(publisher, p.publish("t", str(n).encode(), 1, n))
        sim.run(1.0)
        pids = [packet.pid for packet in client.take()]
        a.lose(client)
        sim.split({"c"})  # so that it takes some time
        for node in (b, a, b, a, b):
            impatient = node.open(4)
            node.send(impatient, p.connect("s", clean=False))
            sim.run(0.2)
            node.lose(impatient)
        sim.heal()
        sim.run(5.0)
        again = self.connect(b, "s", clean=False)
        found = [(packet.pid, packet.dup) for packet in again.take()]
        self.assertEqual(found, [(pid, True) for pid in pids])
        for pid in pids:
            b.send(again, p.puback(pid))
        sim.run(1.0)
        self.assertEqual((a.store.deliveries, b.store.deliveries), ({}, {}))

    def test_a_queue_that_went_to_and_fro_comes_whole(self) -> None:
        """Nobody takes messages for known that it has given away since."""
        for tenths in range(0, 120, 20):
            with self.subTest(tenths=tenths):
                sim = self.cluster()
                a, b, c = (sim.nodes[name] for name in "abc")
                client = self.connect(b, "s", clean=False)
                self.subscribe(b, client, "t", 1)
                b.lose(client)
                publisher = self.connect(c, "p")
                for n in range(1, 6):
                    c.send(publisher, p.publish("t", str(n).encode(), 1, n))
                sim.run(1.0)
                sim.split({"c"})  # so that it takes some time
                impatient = a.open(4)
                a.send(impatient, p.connect("s", clean=False))
                while not a.store.deliveries:
                    sim.run(0.001)
                sim.split({"b"})  # which does not hear that the queue has come
                a.lose(impatient)
                sim.run(1.0)
                impatient = b.open(4)
                b.send(impatient, p.connect("s", clean=False))
                b.lose(impatient)
                sim.run(7.0)
                sim.heal()
                while a.node is not None and not a.node.peers.peers["b"].up:
                    sim.run(0.001)
                sim.run(tenths / 1000)  # it begins to go back, and
                impatient = a.open(4)
                a.send(impatient, p.connect("s", clean=False))
                a.lose(impatient)
                sim.run(5.0)
                again = self.connect(a, "s", clean=False)
                self.assertTrue(again.connack and again.connack.session_present)
                self.assertEqual([int(f.payload) for f in again.take()], [1, 2, 3, 4, 5])

    def test_a_second_connection_on_another_node_takes_over(self) -> None:
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        first = self.connect(a, "c", 5)
        self.connect(b, "c", 5)
        packet = first.take()[-1]
        self.assertEqual((packet.type, packet.reason), ("DISCONNECT", 0x8E))
        self.assertEqual(sorted(n.name for n in sim.nodes.values() if n.world.hub.sessions), ["b"])

    def test_a_session_moves_with_all_it_has(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                sim = self.cluster(durable=durable)
                a, b, c = (sim.nodes[name] for name in "abc")
                client = self.connect(a, "s", clean=False)
                self.subscribe(a, client, "t/#", 2)
                a.lose(client)
                publisher = self.connect(c, "p")
                for n in range(1, 1001):
                    c.send(publisher, p.publish("t/1", str(n).encode(), 1 + n % 2, n))
                sim.run(2.0)
                again = self.connect(b, "s", clean=False)
                self.assertTrue(again.connack and again.connack.session_present)
                got = []
                for _ in range(200):
                    for packet in again.take():
                        if packet.type == "PUBLISH":
                            got.append(int(packet.payload))
                            reply = p.puback if packet.qos == 1 else p.pubrec
                            b.send(again, reply(packet.pid))
                        elif packet.type == "PUBREL":
                            b.send(again, p.pubcomp(packet.pid))
                    sim.run(0.1)
                # In order for each QoS; a message of QoS 2 waits for the store, others do not.
                self.assertEqual([n for n in got if n % 2], list(range(1, 1001, 2)))
                self.assertEqual([n for n in got if not n % 2], list(range(2, 1001, 2)))
                self.assertNotIn("s", a.world.hub.sessions)
                self.assertEqual(len(a.store.deliveries), 0)
