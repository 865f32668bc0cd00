"""A node stands still: who does not need it goes on, others wait until it is suspected.

Publishers at one node and subscribers at another pass messages of each QoS, with a third node that
runs and then with one that is stopped.  How long both took is told and not judged, as the machine
has other things to do; but everything has to come before the third node goes on.
"""

import threading
import time
from collections.abc import Callable

from tests.helpers import packets as p
from tests.system.cluster_processes import PORT, Node
from tests.system.cluster_testbed import Testbed
from tests.system.raw import Raw

MESSAGES = 1000
WANTED = 50
"""So many the stopped node wants, too."""

WINDOW = 20
"""So many of a publisher are on their way."""


class Way:
    """From a publisher at one node to a subscriber at another."""

    def __init__(self, name: str, here: Node, there: Node, qos: int) -> None:
        self.qos = qos
        self.acknowledged = 0
        self.came = 0
        self._topic = f"{name}/{qos}"
        self._subscriber = Raw((there.host, PORT))
        self._subscriber.connect(f"{name}-{qos}-there")
        self._subscriber.subscribe(self._topic, qos)
        self._publisher = Raw((here.host, PORT))
        self._publisher.connect(f"{name}-{qos}-here")

    def send(self, count: int) -> float:
        """So many messages, all the way; the seconds that it took."""
        began = time.monotonic()
        reading = threading.Thread(target=self.read, args=(count,))
        reading.start()
        self.publish(count)
        reading.join()
        return time.monotonic() - began

    def publish(self, count: int) -> None:
        """Until all are acknowledged; QoS 0 is so when it is sent."""
        publisher, qos = self._publisher, self.qos
        sent = done = 0
        while done < count:
            while sent < count and sent - done < WINDOW:
                sent += 1
                publisher.publish(self._topic, b"x", qos, sent if qos else None)
                done += qos == 0
            if qos:
                packet = publisher.receive()
                if packet is None or packet.pid is None:
                    return
                if packet.type == "PUBREC":
                    publisher.send(p.pubrel(packet.pid))
                else:
                    done += 1
        self.acknowledged += done

    def read(self, count: int) -> None:
        """So many messages; what does not come is missed by whoever looks at `came`."""
        subscriber = self._subscriber
        try:
            while count and (packet := subscriber.receive()) is not None:
                if packet.type == "PUBLISH":
                    count -= 1
                    self.came += 1
                if packet.pid is not None:
                    subscriber.send(_answer(packet)(packet.pid))
        except TimeoutError:
            pass

    def close(self) -> None:
        self._publisher.close()
        self._subscriber.close()


def _answer(packet: p.Packet) -> Callable[[int], bytes]:
    if packet.type == "PUBREL":
        return p.pubcomp
    return p.puback if packet.qos == 1 else p.pubrec


def still(testbed: Testbed) -> None:
    a, b, c = (testbed.cluster.nodes[name] for name in "abc")
    testbed.rest()
    ways = [Way("between", a, b, qos) for qos in (1, 0, 2)]
    wanted = Way("wanted", a, c, 1)
    for way in ways:
        way.send(WANTED)  # whatever happens the first time only
    running = [way.send(MESSAGES) for way in ways]
    testbed.trace.note("CLUSTER", "c is frozen")
    c.freeze()
    began = time.monotonic()
    waited: list[float] = []

    def publish() -> None:
        wanted.publish(WANTED)
        waited.append(time.monotonic() - began)

    publishing = threading.Thread(target=publish)
    publishing.start()
    stopped = [way.send(MESSAGES) for way in ways]
    publishing.join()
    for way, before, now in zip(ways, running, stopped, strict=True):
        testbed.said.append(
            f"{MESSAGES} messages of QoS {way.qos} from a to b: {before:.2f} s while c runs,"
            f" {now:.2f} s while it is stopped; ratio {now / before:.2f}"
        )
        sent = WANTED + 2 * MESSAGES
        if (way.acknowledged, way.came) != (sent, sent):
            testbed.wrong.append(
                f"of {sent} messages of QoS {way.qos} {way.acknowledged} were acknowledged,"
                f" and {way.came} came"
            )
    if wanted.acknowledged != WANTED:
        testbed.wrong.append(f"{wanted.acknowledged} of {WANTED} that c wants were acknowledged")
    for seconds in waited:
        testbed.said.append(f"{WANTED} that c wants were acknowledged after {seconds:.2f} s")
    testbed.trace.note("CLUSTER", "c goes on")
    c.thaw()
    wanted.read(WANTED)
    if wanted.came != WANTED:
        testbed.wrong.append(f"{wanted.came} of {WANTED} that c wants came")
    for way in (*ways, wanted):
        way.close()
    testbed.until_whole()
    testbed.work()
