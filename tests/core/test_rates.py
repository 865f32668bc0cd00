"""Token buckets by themselves: what passes when, and who is next."""

from unittest import TestCase

from mhub.core import events
from mhub.core.limits import DELAY, DISCONNECT, DROP
from mhub.core.rates import (
    END,
    HOLD,
    PASS,
    SKIP,
    AddressRates,
    Bucket,
    Gate,
    Meter,
    Throttle,
    network_of,
)

QOS0 = 0x30
QOS1 = 0x32
PINGREQ = 0xC0


def metered(*gates: Gate) -> Meter:
    meter = Meter()
    for gate in gates:
        kind = meter.bytes if "bytes" in events.LIMITS[gate.cause] else meter.messages
        kind.append(gate)
    return meter


def messages(
    rate: float, action: str = DELAY, burst_s: float = 1.0, bucket: Bucket | None = None
) -> Gate:
    return Gate(bucket or Bucket(), rate, burst_s, action, events.MESSAGES)


def bytes_of(rate: float, action: str = DELAY) -> Gate:
    return Gate(Bucket(), rate, 1.0, action, events.BYTES)


def passed(meter: Meter, now: float, first: int = QOS0, size: int = 10, most: int = 10_000) -> int:
    """How many packets pass at this moment."""
    count = 0
    while count < most and meter.judge(first, size, now) == PASS:
        count += 1
    return count


class BucketTests(TestCase):
    def test_the_burst_at_once_then_the_rate(self) -> None:
        meter = metered(messages(8))
        self.assertEqual(passed(meter, 1000.0), 8)
        self.assertEqual([passed(meter, 1000.25 + n / 4) for n in range(8)], [2] * 8)

    def test_in_the_long_run_exactly_the_rate(self) -> None:
        for rate in (0.3, 7.0, 333.0, 12_345.0):
            meter = metered(messages(rate))
            now = 5_000_000.0
            count = 0
            for _ in range(4000):
                now += 0.25
                count += passed(meter, now)
            self.assertAlmostEqual(count / 1000, rate, delta=rate / 500 + 0.002)

    def test_silence_is_saved_up_to_the_burst_only(self) -> None:
        meter = metered(messages(10, burst_s=2.0))
        self.assertEqual(passed(meter, 1000.0), 20)
        self.assertEqual(passed(meter, 100_000.0), 20)

    def test_bytes_and_a_message_longer_than_the_bucket(self) -> None:
        """It passes, and those behind it wait for longer."""
        meter = metered(bytes_of(1000))
        self.assertEqual(meter.judge(QOS0, 5000, 10.0), PASS)
        self.assertEqual(meter.judge(QOS0, 1, 13.9), HOLD)
        self.assertEqual(meter.judge(QOS0, 1, 14.1), PASS)

    def test_what_is_no_message_costs_bytes_only(self) -> None:
        meter = metered(messages(1), bytes_of(100))
        self.assertEqual(passed(meter, 5.0, PINGREQ, 2), 50)

    def test_who_does_not_pass_pays_nothing(self) -> None:
        slow, fast = messages(1), messages(100)
        meter = metered(fast, slow)
        self.assertEqual(passed(meter, 50.0), 1)
        for _ in range(500):
            meter.judge(QOS0, 10, 50.0)
        self.assertAlmostEqual(fast.bucket.full_at, 50.01)

    def test_another_rate_on_the_same_bucket(self) -> None:
        """Limits that differ, or change, share one bucket by the part that each uses."""
        bucket = Bucket()
        slow, fast = metered(messages(10, bucket=bucket)), metered(messages(100, bucket=bucket))
        self.assertEqual(passed(slow, 20.0, most=5), 5)
        self.assertEqual(passed(fast, 20.0), 50)


class ActionTests(TestCase):
    def test_delay(self) -> None:
        meter = metered(messages(1))
        passed(meter, 7.0)
        self.assertEqual(meter.judge(QOS0, 1, 7.0), HOLD)

    def test_drop_is_for_qos_0(self) -> None:
        meter = metered(messages(1, DROP))
        passed(meter, 7.0)
        self.assertEqual(meter.judge(QOS0, 1, 7.0), SKIP)
        self.assertEqual(meter.judge(QOS0 | 1, 1, 7.0), SKIP)
        for first in (QOS1, QOS1 | 8, 0x34):
            self.assertEqual(meter.judge(first, 1, 7.0), HOLD)

    def test_drop_is_for_messages(self) -> None:
        meter = metered(bytes_of(1, DROP))
        passed(meter, 7.0)
        self.assertEqual(meter.judge(PINGREQ, 2, 7.0), HOLD)

    def test_the_hardest_counts(self) -> None:
        gates = [messages(1, DELAY), messages(1, DISCONNECT), messages(1, DROP)]
        meter = metered(*gates)
        passed(meter, 7.0)
        self.assertEqual(meter.judge(QOS0, 1, 7.0), END)
        self.assertIs(meter.stopped, gates[1])


class Sender:
    """Somebody with messages to send, all of them at hand."""

    def __init__(self, name: str, throttle: Throttle, gate: Gate, log: list[str]) -> None:
        self.name = name
        self.throttle = throttle
        self.gate = gate
        self.meter = metered(gate)
        self.left = 0
        self.size = 1
        self.log = log

    def send(self, now: float) -> None:
        while self.left:
            if self.meter.judge(QOS0, self.size, now) != PASS:
                self.throttle.wait(self.gate, self)
                return
            self.left -= 1
            self.log.append(self.name)

    def rate_opened(self, gate: Gate, now: float) -> None:
        self.meter.granted = gate
        self.send(now)
        self.meter.granted = None


class FairnessTests(TestCase):
    def setUp(self) -> None:
        self.throttle = Throttle()
        self.bucket = Bucket()
        self.log: list[str] = []

    def sender(self, name: str, rate: float = 40.0) -> Sender:
        return Sender(name, self.throttle, messages(rate, bucket=self.bucket), self.log)

    def tick(self, now: float) -> dict[str, int]:
        """Who sent how many."""
        self.log.clear()
        self.throttle.tick(now)
        return {name: self.log.count(name) for name in sorted(set(self.log))}

    def begin(self, *senders: Sender, left: int = 100_000) -> None:
        """All have much to send, and the bucket is empty."""
        for sender in senders:
            sender.left = left
            sender.send(100.0)

    def test_equal_shares(self) -> None:
        self.begin(*[self.sender(name) for name in "abcde"])
        for n in range(1, 9):
            self.assertEqual(self.tick(100.0 + n / 4), dict.fromkeys("abcde", 2))

    def test_fewer_tokens_than_senders_go_round(self) -> None:
        """4 a second for 5 senders: each has its turn, none before all others had theirs."""
        self.begin(*[self.sender(name, 4.0) for name in "abcde"])
        order = []
        for n in range(1, 11):
            self.tick(100.0 + n / 4)
            order += self.log
        self.assertEqual(order, [*"abcde", *"abcde"])

    def test_what_some_leave_is_for_the_others(self) -> None:
        few = self.sender("few")
        self.begin(self.sender("much"), few)
        few.left = 1
        self.assertEqual(self.tick(100.25), {"few": 1, "much": 9})

    def test_nobody_passes_those_who_wait(self) -> None:
        self.begin(self.sender("first"))
        late = self.sender("late")
        late.left = 10
        late.send(100.2)  # there are tokens, and somebody waits for them
        self.assertEqual(late.left, 10)
        self.assertEqual(self.tick(100.25), {"first": 5, "late": 5})

    def test_bytes_whatever_the_sizes_of_packets(self) -> None:
        sizes = {"a": 100, "b": 1000, "c": 20_000}
        senders = []
        for name, size in sizes.items():
            gate = Gate(self.bucket, 40_000, 1.0, DELAY, events.BYTES)
            senders.append(Sender(name, self.throttle, gate, self.log))
            senders[-1].size = size
        self.begin(*senders)
        total = dict.fromkeys(sizes, 0)
        for n in range(1, 401):
            for name, count in self.tick(100.0 + n / 4).items():
                total[name] += count * sizes[name]
        self.assertAlmostEqual(sum(total.values()) / 100, 40_000, delta=400)
        self.assertLessEqual(max(total.values()) - min(total.values()), 40_000, total)

    def test_to_come_back_does_not_cancel_what_was_too_much(self) -> None:
        """One has always much at hand, the other one large packet at a time."""
        steady, jerky = (
            Sender(name, self.throttle, Gate(self.bucket, 1000, 1.0, DELAY, events.BYTES), self.log)
            for name in ("steady", "jerky")
        )
        steady.size, jerky.size = 10, 500
        self.begin(steady, jerky, left=100_000)
        jerky.left = 1
        total = dict.fromkeys(("steady", "jerky"), 0)
        for n in range(1, 401):
            found = self.tick(100.0 + n / 4)
            total["steady"] += found.get("steady", 0) * 10
            total["jerky"] += found.get("jerky", 0) * 500
            if not jerky.left:
                jerky.left = 1
                jerky.send(100.0 + n / 4)
        self.assertAlmostEqual(total["jerky"] / total["steady"], 1.0, delta=0.05)

    def test_who_has_gone_does_not_wait(self) -> None:
        gone = self.sender("gone")
        self.begin(self.sender("here"), gone)
        self.throttle.leave(gone, gone.meter)
        self.assertEqual(self.tick(100.25), {"here": 10})

    def test_nobody_is_kept_in_mind_when_nobody_waits(self) -> None:
        sender = self.sender("a")
        self.begin(sender, left=41)
        self.tick(101.0)
        self.assertEqual((sender.left, self.throttle.awaited, self.bucket.waiting), (0, {}, None))
        self.assertEqual(self.throttle.waiting(), 0)


class ClientTests(TestCase):
    """Whoever comes back has no new burst."""

    def test_a_client_that_comes_back_has_its_bucket(self) -> None:
        throttle = Throttle()
        bucket = throttle.of_client("c").messages
        bucket.take(5.0, 100.0)
        throttle.forget_client("c", 100.0)
        throttle.tick(104.9)
        self.assertIs(throttle.of_client("c").messages, bucket)

    def test_it_is_forgotten_when_it_is_full(self) -> None:
        throttle = Throttle()
        throttle.of_client("c").messages.take(5.0, 100.0)
        throttle.forget_client("c", 100.0)
        throttle.tick(105.0)
        self.assertEqual((throttle.clients, throttle.gone), ({}, {}))

    def test_a_full_one_is_forgotten_at_once(self) -> None:
        throttle = Throttle()
        throttle.of_client("c").out.take(1.0, 100.0)
        throttle.forget_client("c", 200.0)
        self.assertEqual((throttle.clients, throttle.gone), ({}, {}))


class AddressTests(TestCase):
    def test_each_address_by_itself(self) -> None:
        rates = AddressRates()
        for port in range(3):
            self.assertTrue(rates.may_connect(f"10.0.0.1:{port}", 3, 1.0, 50.0))
        self.assertFalse(rates.may_connect("10.0.0.1:9", 3, 1.0, 50.0))
        self.assertTrue(rates.may_connect("10.0.0.2:9", 3, 1.0, 50.0))
        self.assertTrue(rates.may_connect("10.0.0.1:9", 3, 1.0, 50.4))

    def test_the_table_is_bounded_and_those_at_rest_go_first(self) -> None:
        rates = AddressRates(100)
        for n in range(90):
            rates.may_connect(f"10.0.0.{n}:1", 1, 1.0, 50.0)
        for n in range(50):
            rates.may_connect(f"10.0.1.{n}:1", 1, 1.0, 51.5)
        self.assertEqual((len(rates.buckets), rates.evicted), (50, 0))
        self.assertFalse(rates.may_connect("10.0.1.0:1", 1, 1.0, 51.5))

    def test_the_first_ones_go_when_all_are_busy(self) -> None:
        rates = AddressRates(100)
        for n in range(1000):
            rates.may_connect(f"10.0.{n // 256}.{n % 256}:1", 0.001, 1.0, 50.0)
            self.assertLessEqual(len(rates.buckets), 100)
        self.assertGreater(rates.evicted, 800)
        self.assertFalse(rates.may_connect("10.0.3.231:2", 0.001, 1.0, 50.0))

    def test_networks(self) -> None:
        for address, network in (
            ("192.0.2.7:1883", "192.0.2.7"),
            ("192.0.2.7", "192.0.2.7"),
            ("[2001:db8:1:2:3:4:5:6]:1883", "2001:db8:1:2"),
            ("[2001:db8:1:2::1]:1883", "2001:db8:1:2"),
            ("[2001:db8::1]:1", "2001:db8:0:0"),
            ("[::1]:1", "0:0:0:0"),
            ("[fe80::1%eth0]:1", "fe80:0:0:0"),
            ("[::ffff:192.0.2.7]:1", "192.0.2.7"),
            ("local", "local"),
        ):
            self.assertEqual(network_of(address), network, address)
