"""What must hold after any failure of nodes, asked of the clients that lived through it.

    each acknowledged message came to each subscription that was there before it
    from QoS 2 to QoS 2 it came once, unless a session was not there
    the retained message of a topic is the last acknowledged one or a later one, on every node

The order of messages is only counted: those of a node that comes back are older than what came
meanwhile.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.helpers import packets as p
from tests.system.cluster_clients import ClusterLoad, RoamingPublisher, RoamingSubscriber
from tests.system.durability_clients import ROOT, topic_of
from tests.system.raw import Address, Raw

MOST_SHOWN = 20
RETAINED_S = 10.0
"""How long to wait for retained messages: only failures wait that long."""

COLUMNS = (
    "scenario",
    "published",
    "acked",
    "delivered",
    "lost",
    "dup qos1",
    "dup qos2",
    "dup qos2, no session",
    "out of order",
    "connects",
    "session absent",
)
HEADING = "".join(f"{name:>{max(len(name), 10)}}  " for name in COLUMNS).rstrip()


@dataclass
class ClusterVerdict:
    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    lost: int = 0
    repeated: int = 0  # further copies of QoS 1, which may be
    twice: int = 0  # from QoS 2 to QoS 2
    excused: int = 0  # the same, where a session was not there
    disordered: int = 0  # a session that moves from a node that comes back has older messages
    connects: int = 0
    forgotten: int = 0
    wrong: list[str] = field(default_factory=list)  # everything that must not be, in words

    def row(self, scenario: str) -> str:
        values: list[object] = [
            scenario,
            self.published,
            self.acknowledged,
            self.delivered,
            self.lost,
            self.repeated,
            self.twice,
            self.excused,
            self.disordered,
            self.connects,
            self.forgotten,
        ]
        pairs = zip(COLUMNS, values, strict=True)
        return "".join(f"{value!s:>{max(len(name), 10)}}  " for name, value in pairs).rstrip()


def judge(load: ClusterLoad) -> ClusterVerdict:
    verdict = ClusterVerdict()
    for client in load.clients:
        verdict.wrong += client.wrong
        verdict.connects += client.welcomes
        verdict.forgotten += client.forgotten
    for publisher in (*load.publishers, load.last):
        verdict.published += publisher.sent
        verdict.acknowledged += len(publisher.acknowledged)
        for subscriber in load.subscribers:
            if subscriber.wants(publisher.name):
                _compare(publisher, subscriber, verdict)
            elif publisher.name in subscriber.got:
                verdict.wrong.append(f"{subscriber.name}: got {publisher.name} without asking")
    return verdict


def _compare(
    publisher: RoamingPublisher, subscriber: RoamingSubscriber, verdict: ClusterVerdict
) -> None:
    where = f"{publisher.name} -> {subscriber.name}"
    copies = subscriber.got.get(publisher.name, [])
    came = Counter(copy.number for copy in copies)
    verdict.delivered += len(came)
    lost = sorted(publisher.acknowledged - came.keys())
    verdict.lost += len(lost)
    _say(verdict, lost, f"{where}: acknowledged, and lost")
    strange = sorted(number for number in came if number > publisher.sent)
    _say(verdict, strange, f"{where}: came, and nobody sent it")
    if publisher.qos == subscriber.qos == 2:
        _count_twice(publisher, subscriber, verdict)
    else:
        verdict.repeated += len(copies) - len(came)
    verdict.disordered += sum(1 for before, number in pairwise(came) if number < before)


def _count_twice(
    publisher: RoamingPublisher, subscriber: RoamingSubscriber, verdict: ClusterVerdict
) -> None:
    seen: set[int] = set()
    twice: list[int] = []
    for place, copy in enumerate(subscriber.got.get(publisher.name, [])):
        if copy.number not in seen:
            seen.add(copy.number)
        elif copy.number in publisher.may_double or (publisher.name, place) in subscriber.split:
            verdict.excused += 1
        else:
            twice.append(copy.number)
    verdict.twice += len(twice)
    _say(verdict, twice, f"{publisher.name} -> {subscriber.name}: came twice at QoS 2")


def _say(verdict: ClusterVerdict, numbers: list[int], what: str) -> None:
    if numbers:
        more = f" and {len(numbers) - MOST_SHOWN} more" if len(numbers) > MOST_SHOWN else ""
        verdict.wrong.append(f"{what}: {' '.join(map(str, numbers[:MOST_SHOWN]))}{more}")


def judge_retained(
    node: str, address: Address, publishers: Sequence[RoamingPublisher]
) -> list[str]:
    """What is wrong with the retained messages of a node; the publishers stand still meanwhile."""
    found = _retained(address, {topic for each in publishers for topic in each.retained})
    wrong: list[str] = []
    for publisher in publishers:
        for topic, last in publisher.retained.items():
            number = found.get(topic, 0)
            if not last <= number <= publisher.sent or topic_of(publisher.name, number) != topic:
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
