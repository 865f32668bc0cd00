"""Whatever a broker does wrong, the command says it in words, counts it, and ends."""

import os
import signal
import socket
from unittest import TestCase, mock

from mhub.bench import poller
from tests.bench.command import Said, bench
from tests.bench.faulty import FaultyBroker, Spoil

SHORT = ("--scenario", "throughput", "--pubs", "1", "--seconds", "0.2", "--timeout", "0.5")


class RefusalTests(TestCase):
    def assertSays(self, said: Said, *words: str) -> None:
        self.assertEqual(said.status, 1, said)
        for word in words:
            self.assertIn(word, said.err)

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        said = bench(f"mqtt://127.0.0.1:{port}", *SHORT)
        self.assertSays(said, f"cannot connect to 127.0.0.1:{port}: connection refused", "listen")

    def test_no_such_unix_socket(self) -> None:
        self.assertSays(bench("unix:///nonexistent/mqtt.sock", *SHORT), "no such file", "listen")

    def test_refused_with_a_reason(self) -> None:
        with FaultyBroker(connack=b"\x20\x02\x00\x05") as broker:
            said = bench(broker.url, *SHORT)
        self.assertSays(said, "refused the connection: not authorized (5)", "--username")

    def test_the_wrong_version(self) -> None:
        with FaultyBroker(connack=b"\x20\x02\x00\x01") as broker:
            said = bench(broker.url, *SHORT, "--version", "5")
        self.assertSays(said, "unacceptable protocol version (1)", "--version 3.1.1")

    def test_closed_without_an_answer(self) -> None:
        with FaultyBroker(connack=b"") as broker:
            said = bench(broker.url, *SHORT)
        self.assertSays(said, "closed the connection instead of sending CONNACK", "mqtts://")

    def test_something_else_answers(self) -> None:
        with FaultyBroker(connack=b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3) as broker:
            said = bench(broker.url, *SHORT)
        self.assertSays(said, "does not speak MQTT", "HTTP/1.1 400")

    def test_nothing_answers(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            said = bench(f"mqtt://127.0.0.1:{silent.getsockname()[1]}", *SHORT)
        self.assertSays(said, "no CONNACK", "within 0.5 s")

    def test_no_tls_there(self) -> None:
        with FaultyBroker(connack=b"") as broker:
            said = bench(broker.url.replace("mqtt:", "mqtts:"), *SHORT)
        self.assertEqual(said.status, 1)
        self.assertIn(f"127.0.0.1:{broker.port}", said.err)

    def test_no_websocket_there(self) -> None:
        with FaultyBroker() as broker:
            said = bench(broker.url.replace("mqtt:", "ws:"), *SHORT)
        self.assertSays(said, "no WebSocket")

    def test_subscription_refused(self) -> None:
        with FaultyBroker(granted=0x80) as broker:
            said = bench(broker.url, *SHORT)
        self.assertSays(said, "refused the subscription", "--topic-prefix")

    def test_a_lower_qos_granted(self) -> None:
        with FaultyBroker(granted=0) as broker:
            said = bench(broker.url, *SHORT, "--qos", "1")
        self.assertSays(said, "granted QoS 0 only", "--qos 0")


class CountingTests(TestCase):
    """The faults of a broker are counted exactly, and told by the exit status."""

    def run_against(self, spoil: Spoil, qos: int = 0, **settings: object) -> Said:
        with FaultyBroker(spoil=spoil, **settings) as broker:  # type: ignore[arg-type]
            return bench(broker.url, *SHORT, "--qos", str(qos), "--window", "20", "--json")

    def test_an_honest_broker(self) -> None:
        said = self.run_against(lambda number, packet: [packet], qos=1)
        [result] = said.results
        self.assertEqual(said.status, 0)
        self.assertGreater(result["received"], 0)
        self.assertEqual(result["received"], result["sent"])
        for fault in ("lost", "duplicated", "disordered", "misrouted", "unacknowledged"):
            self.assertEqual(result[fault], 0)

    def test_lost(self) -> None:
        said = self.run_against(lambda number, packet: [] if number in (3, 7) else [packet], 1)
        self.assertEqual((said.status, said.results[0]["lost"]), (3, 2))

    def test_lost_at_qos_0_is_allowed(self) -> None:
        said = self.run_against(lambda number, packet: [] if number in (3, 7) else [packet])
        self.assertEqual((said.status, said.results[0]["lost"]), (0, 2))

    def test_repeated(self) -> None:
        said = self.run_against(lambda number, packet: [packet] * (2 if number == 5 else 1))
        self.assertEqual((said.status, said.results[0]["duplicated"]), (3, 1))

    def test_out_of_order(self) -> None:
        held = []

        def spoil(number: int, packet: bytes) -> list[bytes]:
            if number == 4:
                held.append(packet)
                return []
            return [packet, held.pop()] if number == 5 else [packet]

        said = self.run_against(spoil)
        self.assertEqual((said.status, said.results[0]["disordered"]), (3, 1))
        self.assertEqual(said.results[0]["lost"], 0)

    def test_messages_of_others(self) -> None:
        said = self.run_against(
            lambda number, packet: [packet] + [b"\x30\x06\x00\x01talso"[:8]] * (number == 2)
        )
        self.assertEqual((said.status, said.results[0]["foreign"]), (0, 1))

    def test_closed_in_the_middle(self) -> None:
        said = self.run_against(lambda number, packet: [packet], closes_after=10)
        [result] = said.results
        self.assertEqual(said.status, 1)
        self.assertIn("closed the connection of subscriber 0", result["trouble"])
        self.assertEqual(result["received"], 10)

    def test_the_protocol_broken_in_the_middle(self) -> None:
        said = self.run_against(
            lambda number, packet: [packet], closes_after=10, goodbye=b"\xf0\x00"
        )
        self.assertIn("broke the protocol with subscriber 0", said.results[0]["trouble"])


class FallbackTests(TestCase):
    def test_it_runs_without_epoll(self) -> None:
        with FaultyBroker() as broker, mock.patch.object(poller, "best", poller.SelectorPoller):
            said = bench(broker.url, *SHORT, "--qos", "1", "--json")
        self.assertEqual((said.status, said.results[0]["lost"]), (0, 0))
        self.assertGreater(said.results[0]["received"], 0)


class InterruptTests(TestCase):
    def test_what_was_measured_until_then_is_told(self) -> None:
        def spoil(number: int, packet: bytes) -> list[bytes]:
            if number == 500:
                os.kill(os.getpid(), signal.SIGINT)
            return [packet]

        before = signal.getsignal(signal.SIGINT)
        with FaultyBroker(spoil=spoil) as broker:
            said = bench(broker.url, "--scenario", "throughput", "--pubs", "1", "--seconds", "30")
        self.assertEqual(said.status, 130)
        self.assertIn("QoS 0 throughput", said.out)
        self.assertIn("interrupted", said.out)
        self.assertIs(signal.getsignal(signal.SIGINT), before)
