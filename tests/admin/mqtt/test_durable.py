"""The answer to QoS 1 and 2 means what PUBACK and PUBCOMP mean: it waits for the store."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.mqtt.message import Message
from mhub.operations.contract import TimedOut
from tests.admin.mqtt.world import Gate, person
from tests.core.disk import Disk
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class DurableTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Gate()
        self.world = self.gate.world
        self.disk = Disk(self.world)
        there = self.world.open(5)
        there.send(p.connect("away", 5, props=[(Prop.SESSION_EXPIRY, 1000)]))
        self.disk.settle()
        there.send(p.subscribe(1, ("t", 2), version=5))
        self.disk.settle()
        there.lose()
        self.disk.settle()

    def publish(self, qos: int, **rest: Any) -> Any:
        message = Message(topic="t", payload=b"x", qos=qos, **rest)
        return self.gate.begin(self.gate.gateway.publish(person(), message, 10.0))

    def test_waits_for_the_store(self) -> None:
        for qos in (1, 2):
            call = self.publish(qos)
            self.assertNoResult(call)
            self.disk.settle()
            self.gate.settle()
            self.disk.settle()
            self.gate.settle()
            self.assertEqual("success", self.successResultOf(call).reason)

    def test_retained_messages_wait_for_it_too(self) -> None:
        call = self.publish(1, retain=True)
        self.assertNoResult(call)
        self.disk.settle()
        self.gate.settle()
        self.successResultOf(call)

    def test_a_store_that_does_not_answer(self) -> None:
        call = self.publish(1)
        self.gate.wait(10.1)
        error = self.failureResultOf(call, TimedOut).value
        self.assertIn("may have been published, or may be yet", str(error))
        self.disk.settle()  # and nothing is left that waits for it
        self.gate.settle()

    def test_a_batch_is_in_one_go(self) -> None:
        messages: list[Any] = [Message(topic="t", payload=b"%d" % n, qos=1) for n in range(100)]
        call = self.gate.begin(self.gate.gateway.publish_all(person(), messages, 10.0))
        self.assertNoResult(call)
        self.disk.settle()
        self.gate.settle()
        self.assertEqual(100, self.successResultOf(call).published)

    def test_a_session_that_is_kept_is_there_when_the_stream_says_so(self) -> None:
        reader = self.gate.subscribe(person(), "a", name="feed", expiry_s=100)
        self.assertEqual(b"", reader.read())
        self.disk.settle()
        self.gate.settle()
        self.disk.settle()
        self.assertIn(b"subscribed", reader.read())
