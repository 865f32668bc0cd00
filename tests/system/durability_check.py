"""What must hold after any crash, asked of the clients that lived through it.

    each acknowledged message came to each subscription that was there before it
    from QoS 2 to QoS 2 it came once
    the messages of a publisher came in their order, as far as they came for the first time
    the retained message of a topic is the last acknowledged one, or a later one

Where nothing but the store failed, no message is put into a queue twice: a second copy has DUP, or
its publisher had sent it again.  A broker that was killed does not always know what it had sent,
so there this is not asked, for QoS 1.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.helpers import packets as p
from tests.system.durability_clients import ROOT, Client, Publisher, Subscriber, topic_of
from tests.system.raw import Raw

MOST_LINES = 20


@dataclass
class Verdict:
    published: int = 0
    acknowledged: int = 0
    delivered: int = 0
    repeated: int = 0  # further copies of QoS 1, which may be
    lost: int = 0
    twice: int = 0  # from QoS 2 to QoS 2
    disordered: int = 0
    doubled: int = 0  # put into a queue twice
    wrong: list[str] = field(default_factory=list)  # everything that must not be, in words

    def summary(self) -> str:
        return (
            f"{self.published} published, {self.acknowledged} acknowledged, {self.delivered}"
            f" delivered, {self.repeated} duplicates (QoS 1), {self.lost} lost, {self.twice} twice"
            f" (QoS 2), {self.disordered} out of order"
        )


def judge(
    publishers: Sequence[Publisher], subscribers: Sequence[Subscriber], is_killed: bool
) -> Verdict:
    """`is_killed` says whether the broker was, or only its store failed."""
    verdict = Verdict()
    clients: list[Client] = [*publishers, *subscribers]
    for client in clients:
        verdict.wrong += client.wrong
    for publisher in publishers:
        verdict.published += publisher.sent
        verdict.acknowledged += len(publisher.acknowledged)
        for subscriber in subscribers:
            if subscriber.wants(publisher.name):
                _compare(publisher, subscriber, verdict, is_killed)
            elif publisher.name in subscriber.got:
                verdict.wrong.append(f"{subscriber.name}: got {publisher.name} without asking")
    return verdict


def _compare(
    publisher: Publisher, subscriber: Subscriber, verdict: Verdict, is_killed: bool
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

    again = sorted(number for number, times in came.items() if times > 1)
    if publisher.qos == subscriber.qos == 2:
        verdict.twice += len(again)
        _say(verdict, again, f"{where}: came twice at QoS 2")
    else:
        verdict.repeated += len(copies) - len(came)
        fresh = Counter(copy.number for copy in copies if not copy.dup)
        doubled = [number for number in again if fresh[number] > 1 + publisher.resent[number]]
        if not is_killed:
            verdict.doubled += len(doubled)
            _say(verdict, doubled, f"{where}: queued twice")

    firsts = list(came)  # in the order in which they came for the first time
    late = [number for before, number in pairwise(firsts) if number < before]
    verdict.disordered += len(late)
    _say(verdict, late, f"{where}: out of order")


def _say(verdict: Verdict, numbers: list[int], what: str) -> None:
    if numbers:
        more = f" and {len(numbers) - MOST_LINES} more" if len(numbers) > MOST_LINES else ""
        verdict.wrong.append(f"{what}: {' '.join(map(str, numbers[:MOST_LINES]))}{more}")


def judge_retained(port: int, publishers: Sequence[Publisher]) -> list[str]:
    """What is wrong with the retained messages; the publishers stand still meanwhile."""
    found = _retained(port, {topic for each in publishers for topic in each.retained})
    wrong: list[str] = []
    for publisher in publishers:
        for topic, last in publisher.retained.items():
            name, number = found.get(topic, (publisher.name, 0))
            is_later = last <= number <= publisher.sent and topic_of(name, number) == topic
            if not is_later:
                wrong.append(f"{topic}: {last} is acknowledged, and {number} retained")
    return wrong


def _retained(port: int, topics: set[str]) -> dict[str, tuple[str, int]]:
    """By topic, whose message it is and its number; those that do not come are left out."""
    found: dict[str, tuple[str, int]] = {}
    raw = Raw(("127.0.0.1", port))
    raw.connect("late")
    raw.send(p.subscribe(1, (f"{ROOT}/#", 0)))
    raw.expect("SUBACK", reasons=[0])
    try:
        while topics - found.keys():
            packet = raw.receive()
            if packet is None:
                break
            # What is published meanwhile comes along, without this flag.
            if packet.type == "PUBLISH" and packet.retain and packet.topic is not None:
                name, number, _ = packet.payload.decode().split(" ")
                found[packet.topic] = name, int(number)
    except TimeoutError:
        pass  # as good as an answer
    raw.close()
    return found
