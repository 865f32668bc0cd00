"""Random conversations of several clients, held against a plain model of MQTT 3.1.1.

Invariant: each session gets exactly the messages that the model says, QoS 1 and 2 across any
number of reconnects, each QoS in order, QoS 2 once, and nothing again that it has acknowledged.
The seeds are fixed, so a failure repeats itself; its message begins with the seed.
"""

import random
from collections import Counter

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet

TOPICS = ("a", "a/b", "a/b/c", "a/c", "b", "b/c", "/a", "a/", "$a/b")
FILTERS = (*TOPICS, "#", "+", "a/#", "a/+", "+/b", "+/+", "a/+/c", "/#", "+/#", "$a/#", "$a/+")


def matches(text: str, topic: str) -> bool:
    """The rules of section 4.7, as plainly as they can be said."""
    if topic[0] == "$" and text[0] in "+#":
        return False
    levels, wanted = topic.split("/"), text.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(
        want in ("+", level) for want, level in zip(wanted, levels, strict=True)
    )


class Session:
    """What one client should get, and what it got."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client: RawClient | None = None
        self.forget()

    def forget(self) -> None:
        self.subscriptions: dict[str, int] = {}
        self.expected: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.possible: Counter[bytes] = Counter()  # retained messages that may come, ...
        self.needed: dict[str, list[tuple[str, bytes]]] = {}  # ... and that the filters have to get
        self.got: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.got_retained: Counter[bytes] = Counter()
        self.settled: set[bytes] = set()

    def due(self, topic: str, payload: bytes, qos: int) -> None:
        """A message was published."""
        granted = [most for text, most in self.subscriptions.items() if matches(text, topic)]
        if granted:
            qos = min(qos, max(granted))
            if qos or self.client is not None:
                self.expected[qos].append(payload)


class World:
    def __init__(self, case: ProtocolCase, seed: int) -> None:
        self.case = case
        self.random = random.Random(seed)
        self.sessions = [Session(f"s{number}") for number in range(4)]
        self.retained: dict[str, bytes] = {}
        self.publisher = case.connect("publisher")
        self.number = 0

    def step(self) -> None:
        session = self.random.choice(self.sessions)
        act = self.random.choices(
            (self.publish, self.subscribe, self.unsubscribe, self.answer, self.leave),
            (6, 3, 1, 3, 1),
        )[0]
        if session.client is None and act != self.publish:
            self.come(session, clean=self.random.random() < 0.1)
        act(session)

    def come(self, session: Session, clean: bool) -> None:
        if clean:
            session.forget()
            self.case.connect(session.name, clean=True).close()
        session.client = self.case.connect(session.name, clean=False)

    def leave(self, session: Session) -> None:
        assert session.client is not None
        self.hear(session, patience=0.5)
        self.hear(session, patience=0.0)  # What those acknowledgements brought.
        if self.random.random() < 0.5:
            session.client.close()
        else:
            session.client.abort()
        session.client = None

    def publish(self, _: Session) -> None:
        self.number += 1
        topic, qos = self.random.choice(TOPICS), self.random.randrange(3)
        payload = b"%d" % self.number
        retain = self.random.random() < 0.3
        if retain:
            self.retained[topic] = payload
        for session in self.sessions:
            session.due(topic, payload, qos)
        self.publisher.publish(topic, payload, qos, retain=retain)

    def subscribe(self, session: Session) -> None:
        assert session.client is not None
        text, qos = self.random.choice(FILTERS), self.random.randrange(3)
        session.subscriptions[text] = qos
        found = [(topic, x) for topic, x in self.retained.items() if matches(text, topic)]
        session.needed[text] = found
        session.possible.update(payload for _, payload in found)
        session.client.subscribe(text, qos, granted=qos)

    def unsubscribe(self, session: Session) -> None:
        assert session.client is not None
        text = self.random.choice([*session.subscriptions, "never"])
        session.subscriptions.pop(text, None)
        session.needed.pop(text, None)
        session.client.unsubscribe(text)

    def answer(self, session: Session) -> None:
        self.hear(session, patience=0.7)

    def hear(self, session: Session, patience: float) -> None:
        """Take what came, and acknowledge some of it."""
        assert session.client is not None
        for packet in session.client.drain():
            if packet.type == "PUBREL":
                if self.random.random() < patience:
                    session.client.send(p.pubcomp(packet.pid or 0))
                continue
            self.case.assertEqual("PUBLISH", packet.type)
            key = packet.payload + (b"R%d" % (packet.pid or 0) if packet.retain else b"")
            self.note(session, packet, key)
            if packet.qos and self.random.random() < patience:
                session.client.send((p.puback if packet.qos == 1 else p.pubrec)(packet.pid or 0))
                if not packet.retain:
                    session.settled.add(key)

    def note(self, session: Session, packet: Packet, key: bytes) -> None:
        self.case.assertNotIn(key, session.settled, f"{session.name} had settled {packet}")
        if packet.retain:
            session.got_retained[packet.payload] += not packet.dup
            return
        got = session.got[packet.qos]
        if packet.dup:
            self.case.assertIn(packet.payload, got, f"{session.name} gets it first with DUP")
        else:
            self.case.assertNotIn(packet.payload, got, f"{session.name} gets it twice without DUP")
            got.append(packet.payload)

    def finish(self) -> None:
        """Everybody comes and acknowledges until there is nothing left; then all is compared."""
        for session in self.sessions:
            if session.client is not None:
                self.leave(session)
            self.come(session, clean=False)
            assert session.client is not None
            while True:
                before = self.case.hub.stats.packets_sent
                self.hear(session, patience=1.0)
                if self.case.hub.stats.packets_sent == before:
                    break
            for qos in (0, 1, 2):
                about = f"QoS {qos} to {session.name}"
                self.case.assertEqual(session.expected[qos], session.got[qos], about)
            self.compare_retained(session)
            self.leave(session)
            self.come(session, clean=False)
            session.client.expect_nothing()

    def compare_retained(self, session: Session) -> None:
        """What was retained at a SUBSCRIBE comes, unless it was replaced before it could."""
        extra = session.got_retained - session.possible
        self.case.assertFalse(extra, f"{session.name} got retained messages without asking")
        for found in session.needed.values():
            for topic, payload in found:
                if self.retained[topic] == payload:
                    self.case.assertIn(payload, session.got_retained, f"{session.name} on {topic}")


class RandomConversations(ProtocolCase):
    @statement("3.1.1", "MQTT-4.5.0-1", "MQTT-4.6.0-6", "MQTT-4.4.0-1", "MQTT-4.3.3-1")
    def test_sessions_get_what_the_model_says(self) -> None:
        """Several clients, small windows, lost connections, wildcards, retained messages."""
        for seed in range(6):
            self.start(max_inflight=4, portion=3, work_per_turn=5)
            with self.about(f"seed {seed}"):
                world = World(self, seed)
                for _ in range(150):
                    world.step()
                world.finish()
