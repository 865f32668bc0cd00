"""MQTT 5, chapter 4.8.2: shared subscriptions."""

from collections import Counter

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop

SHARED = "$share/group/t"


class SharedCase(Mqtt5Case):
    def member(self, name: str, qos: int = 1, filter: str = SHARED, expiry_s: int = 0) -> RawClient:
        client = self.resume(name, expiry_s)
        client.subscribe(filter, qos, granted=qos)
        return client

    def publish(self, *payloads: str, qos: int = 1) -> None:
        sender = self.connect("sender")
        for payload in payloads:
            sender.publish("t", payload, qos)

    def one_of(self, *clients: RawClient) -> tuple[RawClient, Packet]:
        """The one member that got the one message."""
        found = [(client, packet) for client in clients for packet in client.drain()]
        self.assertEqual(1, len(found), found)
        return found[0]


class Filters(SharedCase):
    @statement("5", "MQTT-4.8.2-1", "MQTT-4.8.2-2")
    def test_what_a_shared_filter_looks_like(self) -> None:
        """$share/NAME/FILTER: NAME has a character and no wildcard, FILTER is a filter."""
        client = self.connect()
        for filter in ("$share/g/t", "$share/g/#", "$share/g/+/x", "$share/ü/ /", "$share/g//"):
            client.subscribe(filter, granted=0)
        for filter in (
            "$share//t",
            "$share/g",
            "$share/g/",
            "$share/",
            "$share/+/t",
            "$share/#/t",
            "$share/g+/t",
            "$share/g#/t",
            "$share/#",
            "$share/g/a#",
            "$share/g/#/a",
        ):
            with self.case(filter):
                self.cut_off(self.connect(), p5.subscribe(1, (filter, 0)), Reason.MALFORMED)

    @statement("5", "MQTT-4.8.2-1", "MQTT-4.8.2-2")
    def test_the_filter_behind_the_name_counts(self) -> None:
        """It may hold wildcards, which do not match $ topics either."""
        client = self.connect()
        client.subscribe("$share/g/+/b/#", granted=0)
        for topic in ("a/b", "a/b/c", "b", "$a/b"):
            client.publish(topic)
        client.expect("PUBLISH", topic="a/b")
        client.expect("PUBLISH", topic="a/b/c")
        client.expect_nothing()


class Distribution(SharedCase):
    def test_each_message_goes_to_one_member_and_all_get_their_share(self) -> None:
        """Fairly, for every QoS."""
        members = [self.member(f"m{number}", 2) for number in range(3)]
        for qos in (0, 1, 2):
            with self.case(qos):
                self.publish(*map(str, range(30)), qos=qos)
                shares = [client.drain() for client in members]
                self.assertEqual([10, 10, 10], [len(share) for share in shares])
                payloads = Counter(packet.payload for share in shares for packet in share)
                self.assertEqual(Counter(str(n).encode() for n in range(30)), payloads)
                for client, share in zip(members, shares, strict=True):
                    for packet in share:
                        client.acknowledge(packet)

    def test_groups_and_plain_subscribers_each_get_their_copy(self) -> None:
        """Name and filter make the group; a plain subscription of a member counts by itself."""
        one = self.member("one", filter="$share/first/t")
        two = self.member("two", filter="$share/second/t")
        three = self.member("three", filter="$share/first/+")
        plain = self.member("plain", filter="t")
        self.publish("x")
        for client in (one, two, three, plain):
            client.acknowledge(client.expect("PUBLISH", payload=b"x"))
            client.expect_nothing()
        one.subscribe("t", 1)
        self.publish("y")
        self.assertEqual([b"y", b"y"], [packet.payload for packet in one.drain()])

    @statement("5", "MQTT-4.8.2-3")
    def test_qos_is_that_of_the_chosen_member(self) -> None:
        """Each subscribes with its own."""
        members = {qos: self.member(f"m{qos}", qos) for qos in (0, 1, 2)}
        self.publish(*"123456", qos=2)
        for qos, client in members.items():
            share = client.drain()
            self.assertEqual([qos, qos], [packet.qos for packet in share])

    def test_subscription_identifiers_and_options_are_those_of_the_member(self) -> None:
        """Identifier and Retain As Published."""
        client = self.connect()
        options = p.options(1, as_published=True)
        client.subscribe(SHARED, options=options, props=[(Prop.SUBSCRIPTION_ID, 7)])
        self.connect("sender").publish("t", "x", 1, retain=True)
        packet = client.expect("PUBLISH", retain=True)
        self.assertEqual([7], packet.all_props(Prop.SUBSCRIPTION_ID))

    def test_no_retained_messages_for_shared_subscriptions(self) -> None:
        """Whatever the Retain Handling; the first member and later ones alike."""
        self.connect("sender").publish("t", "kept", retain=True)
        for handling in (0, 1, 2):
            client = self.connect(f"m{handling}")
            client.subscribe(SHARED, options=p.options(1, handling=handling))
            client.expect_nothing()

    def test_unsubscribing(self) -> None:
        """The others get everything then; the last one gone, nobody does."""
        one, two = self.member("one"), self.member("two")
        self.assertEqual([0x11], one.unsubscribe("t").reasons)
        self.assertEqual([0], one.unsubscribe(SHARED).reasons)
        self.publish("a", "b")
        one.expect_nothing()
        self.assertEqual([b"a", b"b"], [packet.payload for packet in two.drain()])
        self.assertEqual([0], two.unsubscribe(SHARED).reasons)
        reply = self.connect("sender").publish("t", "x", 1)
        assert reply is not None
        self.assertEqual(Reason.NO_MATCHING_SUBSCRIBERS, reply.reason)

    def test_subscribing_again_is_no_second_membership(self) -> None:
        """The share stays the same; the QoS is the new one."""
        one, two = self.member("one", 0), self.member("two", 0)
        for _ in range(3):
            one.subscribe(SHARED, 1, granted=1)
        self.publish(*"abcdef")
        self.assertEqual([1, 1, 1], [packet.qos for packet in one.drain()])
        self.assertEqual([0, 0, 0], [packet.qos for packet in two.drain()])

    def test_a_member_with_a_full_window_is_passed_over(self) -> None:
        """Where another one can take the message at once."""
        busy = self.resume("busy", 0, [(Prop.RECEIVE_MAXIMUM, 1)])
        busy.subscribe(SHARED, 1)
        free = self.member("free")
        self.publish(*"abcdef")
        self.assertEqual(1, len(busy.drain()))
        self.assertEqual(5, len(free.drain()))


class MembersThatLeave(SharedCase):
    def test_a_member_that_is_away_gets_nothing_while_others_are_there(self) -> None:
        """Its session goes on, but the messages go to the living."""
        away, here = self.member("away", expiry_s=1000), self.member("here")
        away.close()
        self.publish(*"abcd")
        self.assertEqual(4, len(here.drain()))
        self.resume("away").expect_nothing()

    def test_a_member_that_comes_back_gets_its_share_again(self) -> None:
        """Without a new SUBSCRIBE: the membership is part of the session."""
        away, here = self.member("away", expiry_s=1000), self.member("here")
        away.close()
        away = self.resume("away")
        self.publish(*"abcd")
        self.assertEqual([2, 2], [len(client.drain()) for client in (away, here)])

    def test_a_member_that_unsubscribes_leaves_what_it_has_not_been_sent(self) -> None:
        """And finishes what has begun."""
        busy = self.resume("busy", 0, [(Prop.RECEIVE_MAXIMUM, 1)])
        busy.subscribe(SHARED, 1)
        self.publish(*"abc")
        other = self.member("other")
        busy.unsubscribe(SHARED)
        self.assertEqual([b"b", b"c"], [packet.payload for packet in other.drain()])
        busy.acknowledge(busy.expect("PUBLISH", payload=b"a"))
        busy.expect_nothing()

    def test_messages_wait_while_all_are_away(self) -> None:
        """The sessions keep them until somebody comes back."""
        client = self.member("client", expiry_s=1000)
        client.close()
        self.publish(*"abc")
        client = self.resume("client")
        self.assertEqual([b"a", b"b", b"c"], [packet.payload for packet in client.drain()])

    def test_what_a_member_had_not_acknowledged_goes_to_another(self) -> None:
        """QoS 1, when its session ends with the connection."""
        members = {name: self.member(name) for name in ("one", "two")}
        self.publish("x")
        chosen, packet = self.one_of(*members.values())
        chosen.abort()
        other = members["two"] if chosen is members["one"] else members["one"]
        other.acknowledge(other.expect("PUBLISH", payload=packet.payload, qos=1))
        other.expect_nothing()

    def test_what_a_member_had_acknowledged_stays_settled(self) -> None:
        """Its end sends nothing again."""
        members = {name: self.member(name) for name in ("one", "two")}
        self.publish("x")
        chosen, packet = self.one_of(*members.values())
        chosen.acknowledge(packet)
        chosen.abort()
        other = members["two"] if chosen is members["one"] else members["one"]
        other.expect_nothing()

    def test_what_a_member_had_not_yet_been_sent_goes_to_another(self) -> None:
        """The queue behind its window."""
        busy = self.resume("busy", 0, [(Prop.RECEIVE_MAXIMUM, 1)])
        busy.subscribe(SHARED, 1)
        self.publish(*"abc")
        busy.expect("PUBLISH", payload=b"a")
        other = self.member("other")
        busy.abort()
        self.assertEqual({b"a", b"b", b"c"}, {packet.payload for packet in other.drain()})

    def test_it_is_delivered_again_if_nobody_else_is_there(self) -> None:
        """To the same member, when it comes back to its session."""
        client = self.member("client", expiry_s=1000)
        self.publish("x")
        pid = client.expect("PUBLISH").pid
        client.abort()
        self.resume("client").expect("PUBLISH", pid=pid, dup=True, payload=b"x")

    @statement("5", "MQTT-4.8.2-4")
    def test_qos_2_is_completed_to_the_same_client(self) -> None:
        """Cut off before PUBREC or after it, while another member is there."""
        for received in (False, True):
            with self.case(received):
                members = {name: self.member(name, 2, expiry_s=1000) for name in ("one", "two")}
                self.publish("x", qos=2)
                chosen, packet = self.one_of(*members.values())
                name = "one" if chosen is members["one"] else "two"
                assert packet.pid is not None
                if received:
                    chosen.send(p.pubrec(packet.pid))
                    chosen.expect("PUBREL", pid=packet.pid)
                chosen.abort()
                members["two" if name == "one" else "one"].expect_nothing()
                chosen = self.resume(name)
                if received:
                    chosen.expect("PUBREL", pid=packet.pid)
                    chosen.send(p.pubcomp(packet.pid))
                else:
                    chosen.acknowledge(chosen.expect("PUBLISH", pid=packet.pid, dup=True))

    @statement("5", "MQTT-4.8.2-5")
    def test_qos_2_goes_to_nobody_else_when_the_session_ends(self) -> None:
        """At once or later: the message may have been handled already."""
        for expiry_s in (0, 10):
            with self.case(expiry_s):
                members = {name: self.member(name, 2, expiry_s=expiry_s) for name in ("one", "two")}
                self.publish("x", qos=2)
                chosen, _ = self.one_of(*members.values())
                chosen.abort()
                self.advance(20)
                other = members["two"] if chosen is members["one"] else members["one"]
                other.expect_nothing()
                other.close()
                self.advance(20)

    @statement("5", "MQTT-4.8.2-6", "MQTT-4.4.0-2")
    def test_a_refused_message_is_offered_to_nobody_else(self) -> None:
        """PUBACK or PUBREC of 0x80 or above drops it."""
        members = {name: self.member(name, 2) for name in ("one", "two")}
        for qos in (1, 2):
            self.publish("x", qos=qos)
            chosen, packet = self.one_of(*members.values())
            assert packet.pid is not None
            refuse = p.puback if qos == 1 else p.pubrec
            chosen.send(refuse(packet.pid, Reason.UNSPECIFIED))
            for client in members.values():
                client.expect_nothing()
