"""What must hold after any failure of nodes, asked of the clients that lived through it.

The only excuse is Session Present 0 in a CONNACK that the client has read.  Each one, but for the
very first, begins a new lifetime of a subscriber.  For each publisher and each subscriber:

loss      A message that was acknowledged has come, if its publisher sent it (for the last time)
          after the SUBACK of the subscriber's last lifetime.
twice     From QoS 2 to QoS 2, a message came once in a lifetime.  Not so if the publisher has read
          Session Present 0 before the acknowledgement: then it has published it twice.
order     In a lifetime, the messages of a publisher, topic and QoS came for the first time in the
          order in which they were published.  Left out are those published before the lifetime's
          SUBACK, as what an earlier session had may come late (if a node was frozen at that time,
          those published before all nodes see each other again); those published twice; and those
          that a publisher sent while a node was frozen, if it has read Session Present 0 since.
repeats   Where no node and no link failed: each further copy at QoS 1 has DUP, or its publisher had
          sent it again.  (A broker that was killed does not always know what it had sent.)

A retained message that comes because of a new subscription, with RETAIN, says nothing about order
and is no second copy.  Clients that are exempt because of a split: see `cluster_clients`.

    the retained message of a topic is the last acknowledged one or a later one, on every node
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from tests.helpers import packets as p
from tests.system.cluster_clients import ClusterLoad, RoamingPublisher, RoamingSubscriber
from tests.system.durability_clients import ROOT, Copy, topic_of
from tests.system.raw import Address, Raw

MOST_SHOWN = 20
AROUND = 4
"""So many messages before and after one that is out of order are shown with it."""

RETAINED_S = 10.0
"""How long to wait for retained messages: only failures wait that long."""


@dataclass
class ClusterVerdict:
    """Numbers, under the titles of the table, and everything that must not be, in words."""

    published: int = 0
    acked: int = 0
    delivered: int = 0
    lost: int = 0
    twice: int = 0
    disordered: int = field(default=0, metadata={"title": "out of order"})
    no_dup: int = field(default=0, metadata={"title": "no DUP"})
    dup_qos1: int = field(default=0, metadata={"title": "dup qos1"})
    connects: int = 0
    absent: int = field(default=0, metadata={"title": "session absent"})
    lost_excused: int = field(default=0, metadata={"title": "excused: lost"})
    twice_excused: int = field(default=0, metadata={"title": "twice"})
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "ClusterVerdict") -> None:
        """Count another run, too."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def row(self) -> str:
        return row([getattr(self, each.name) for each in fields(self)[:-1]])


TITLES = [each.metadata.get("title", each.name) for each in fields(ClusterVerdict)[:-1]]


def row(values: Sequence[object]) -> str:
    """A line of the table, but for its first columns."""
    widths = (max(len(title), 9) for title in TITLES)
    return "  ".join(f"{value!s:>{width}}" for value, width in zip(values, widths, strict=True))


HEADING = row(TITLES)


def judge(load: ClusterLoad, nothing_failed: bool = False) -> ClusterVerdict:
    """`nothing_failed`: clients moved, but all nodes and the links between them were well."""
    verdict = ClusterVerdict()
    for client in load.clients:
        verdict.wrong += client.wrong
        verdict.connects += client.welcomes
        verdict.absent += client.forgotten
        if nothing_failed and client.forgotten:
            verdict.wrong.append(f"{client.name}: Session Present 0 {client.forgotten} times")
    for publisher in (*load.publishers, load.last):
        verdict.published += publisher.sent
        verdict.acked += len(publisher.acknowledged)
        for subscriber in load.subscribers:
            if subscriber.wants(publisher.name):
                _Pair(publisher, subscriber, verdict).compare(nothing_failed)
            elif publisher.name in subscriber.got:
                verdict.wrong.append(f"{subscriber.name}: got {publisher.name} without asking")
    return verdict


def missing(publisher: RoamingPublisher, subscriber: RoamingSubscriber) -> set[int]:
    """Acknowledged messages that have not come, and have to."""
    required_from = subscriber.lifetimes[-1].required_from
    return {
        number
        for number in _absent(publisher, subscriber)
        if publisher.last_sent_at[number] > required_from
    }


def _absent(publisher: RoamingPublisher, subscriber: RoamingSubscriber) -> set[int]:
    came = {copy.number for copy in subscriber.got.get(publisher.name, ())}
    return publisher.acknowledged - came


class _Pair:
    """A publisher and a subscriber that listens to it."""

    def __init__(
        self, publisher: RoamingPublisher, subscriber: RoamingSubscriber, verdict: ClusterVerdict
    ) -> None:
        self.publisher = publisher
        self.subscriber = subscriber
        self.copies = subscriber.got.get(publisher.name, [])
        self._verdict = verdict
        self._qos = min(publisher.qos, subscriber.qos)

    def compare(self, nothing_failed: bool) -> None:
        verdict = self._verdict
        came = Counter(copy.number for copy in self.copies)
        verdict.delivered += len(came)
        lost = missing(self.publisher, self.subscriber)
        verdict.lost += len(lost)
        self._say(sorted(lost), "acknowledged, and lost")
        verdict.lost_excused += len(_absent(self.publisher, self.subscriber)) - len(lost)
        strange = sorted(number for number in came if number > self.publisher.sent)
        self._say(strange, "came, and nobody sent it")
        # A retained message comes with the QoS of its publisher, too, so this holds for all.
        changed = sorted({copy.number for copy in self.copies if copy.qos != self._qos})
        self._say(changed, f"came with another QoS than {self._qos}")
        if self._qos == 2:
            self._count_twice()
        else:
            self._count_repeats(nothing_failed)
        self._count_disordered()

    def _count_twice(self) -> None:
        """Copies at QoS 2; what was recognized by its packet id is not among them."""
        seen: set[tuple[int, int]] = set()
        before: set[int] = set()
        for copy in self.copies:
            if copy.retain:
                continue
            if (copy.lifetime, copy.number) not in seen:
                self._verdict.twice_excused += copy.number in before
            elif copy.is_exempt or copy.number in self.publisher.may_double:
                self._verdict.twice_excused += 1
            else:
                self._verdict.twice += 1
                self._say([copy.number], f"came twice at QoS 2, {self._story(copy)}")
            seen.add((copy.lifetime, copy.number))
            before.add(copy.number)

    def _count_repeats(self, nothing_failed: bool) -> None:
        self._verdict.dup_qos1 += len(self.copies) - len({copy.number for copy in self.copies})
        if not nothing_failed:
            return
        fresh: Counter[int] = Counter()
        for copy in self.copies:
            if not copy.dup and not copy.retain:
                fresh[copy.number] += 1
                if fresh[copy.number] > 1 + self.publisher.resent[copy.number]:
                    self._verdict.no_dup += 1
                    self._say([copy.number], f"came again without DUP, {self._story(copy)}")

    def _count_disordered(self) -> None:
        # By lifetime and topic, the highest number so far.
        highest: dict[tuple[int, int], int] = {}
        seen: set[tuple[int, int]] = set()
        run: list[Copy] = []  # one after the other out of order; they are told together
        after = 0  # and the one that they should have come before
        for copy in self.copies:
            if (copy.lifetime, copy.number) in seen or self._out_of_any_order(copy):
                continue
            seen.add((copy.lifetime, copy.number))
            key = copy.lifetime, copy.number % self.publisher.spread
            if copy.number < highest.get(key, 0):
                self._verdict.disordered += 1
                run.append(copy)
                after = max(after, highest[key])
                continue
            highest[key] = copy.number
            self._say_disordered(run, after)
            run, after = [], 0
        self._say_disordered(run, after)

    def _say_disordered(self, run: list[Copy], after: int) -> None:
        if not run:
            return
        numbers = [copy.number for copy in run]
        text = f"out of order, {self._story(run[0])}"
        # No excuse, but good to know: the broker had to begin anew with this publisher in between.
        if any(min(numbers) <= last < after for last in self.publisher.lost_after):
            text += f"; {self.publisher.name} read Session Present 0 in between"
        self._say(numbers, text)

    def _out_of_any_order(self, copy: Copy) -> bool:
        """Whether nothing is promised about when it comes."""
        publisher, number = self.publisher, copy.number
        lifetime = self.subscriber.lifetimes[copy.lifetime]
        return (
            copy.retain
            or copy.is_exempt
            or number in publisher.may_double
            or number in publisher.unordered
            # Nobody sent it, if it has no time; that is said elsewhere.
            or publisher.first_sent_at.get(number, -math.inf)
            < max(lifetime.began_at, lifetime.ordered_from)
        )

    def _story(self, copy: Copy) -> str:
        """What came of the same topic before and after this copy."""
        spread = self.publisher.spread
        topic = [each for each in self.copies if (each.number - copy.number) % spread == 0]
        at = next(n for n, each in enumerate(topic) if each is copy)
        shown: list[str] = []
        connection = -1
        for each in topic[max(at - AROUND, 0) : at + AROUND + 1]:
            if each.connection != connection:
                connection = each.connection
                shown.append(f"connection {connection}:")
            mark = "*" if each is copy else ""
            shown.append(f"{mark}{each.number}{'(dup)' if each.dup else ''}{mark}")
        return "in " + " ".join(shown)

    def _say(self, numbers: list[int], what: str) -> None:
        if not numbers:
            return
        wrong = self._verdict.wrong
        more = f" and {len(numbers) - MOST_SHOWN} more" if len(numbers) > MOST_SHOWN else ""
        shown = " ".join(map(str, numbers[:MOST_SHOWN]))
        wrong.append(f"{self.publisher.name} -> {self.subscriber.name}: {shown}{more}: {what}")


def judge_retained(
    node: str, address: Address, publishers: Sequence[RoamingPublisher]
) -> list[str]:
    """What is wrong with the retained messages of a node; the publishers stand still meanwhile."""
    found = _retained(address, {topic for each in publishers for topic in each.retained})
    wrong: list[str] = []
    for publisher in publishers:
        for topic, last in publisher.retained.items():
            number = found.get(topic, 0)
            is_of_topic = topic_of(publisher.name, number, publisher.spread) == topic
            if not last <= number <= publisher.sent or not is_of_topic:
                wrong.append(f"{topic} on {node}: {last} is acknowledged, and {number} retained")
    return wrong


def _retained(address: Address, topics: set[str]) -> dict[str, int]:
    """By topic, the number of its message; those that do not come are left out."""
    found: dict[str, int] = {}
    raw = Raw(address)
    raw.sock.settimeout(RETAINED_S)
    raw.connect("late")
    raw.send(p.subscribe(1, (f"{ROOT}/#", 0)))
    deadline = time.monotonic() + RETAINED_S
    try:
        while topics - found.keys() and time.monotonic() < deadline:
            packet = raw.receive()
            if packet is None:
                break
            if packet.type == "PUBLISH" and packet.retain and packet.topic is not None:
                found[packet.topic] = int(packet.payload.split(b" ")[1])
    except TimeoutError:
        pass  # as good as an answer
    raw.close()
    return found
