"""A session that comes back by way of another listener, with another mount point."""

import signal

from tests.helpers.packets import Prop
from tests.system.case import BrokerCase
from tests.system.process import Broker
from tests.system.raw import Raw

KEPT = [(Prop.SESSION_EXPIRY, 1000)]
LISTENERS = """
[[listeners]]
name = "north"
port = 0
mount_point = "north/"
[[listeners]]
name = "south"
port = 0
mount_point = "south/"
[store]
path = "mhub.sqlite"
"""


class MountPointTests(BrokerCase):
    def client(self, broker: Broker, listener: str) -> Raw:
        raw = Raw(("127.0.0.1", broker.ports[listener]), 5)
        self.addCleanup(raw.sock.close)
        return raw

    def test_subscriptions_follow_and_topics_are_whole(self) -> None:
        """Also when the broker was killed in between."""
        broker = self.start(LISTENERS)
        north = self.client(broker, "north")
        north.connect("c", clean=False, props=KEPT)
        north.subscribe("t/#", 1)
        north.close()
        for killed in (False, True):
            if killed:
                broker.signal(signal.SIGKILL)
                broker.wait()
                (broker.directory / "broker.log").unlink()  # the next has other ports
                broker.start()
            for name in ("north", "south"):
                sender = self.client(broker, name)
                sender.connect(f"sender {name}")
                sender.publish("t/x", b"old", 1, 1)
                sender.expect("PUBACK")
            moved = self.client(broker, "north" if killed else "south")
            moved.connect("c", clean=False, props=KEPT)
            here = "north" if killed else "south"
            for name in ("north", "south"):
                sender = self.client(broker, name)
                sender.connect(f"sender {name}")
                sender.publish("t/x", f"from {name}".encode(), 1, 1)
                sender.expect("PUBACK")
            # What waited was for the place where it was before: it cannot be named here.
            moved.expect("PUBLISH", topic="t/x", payload=f"from {here}".encode())
            moved.ping()
            moved.close()
