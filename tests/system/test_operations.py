"""`mhub ctl status`, `clients`, `kick` and `store export` with a broker that runs and is busy."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from threading import Event, Thread

from tests.helpers import packets
from tests.helpers.redis import RedisServer
from tests.system.case import PLAIN, BrokerCase, place
from tests.system.process import Broker, run, wait_until
from tests.system.raw import Raw

SESSIONS = 12
BEFORE = 200
"""Messages that wait for each session before the export begins."""

AT_ONCE = 5
PAUSE_S = 0.01


def mhub(broker: Broker, *argv: str) -> str:
    """The output of a command that has to succeed."""
    command = [sys.executable, "-m", "mhub", *argv, "--config", "broker.toml"]
    ended = run(command, cwd=broker.directory)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


class Publisher(Thread):
    """Publishes 0, 1, 2, ... with QoS 1 for all sessions, a few at a time."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.raw = Raw(("127.0.0.1", port))
        self.raw.connect("publisher")
        self.acknowledged = 0
        self.enough = Event()

    def run(self) -> None:
        while not self.enough.is_set():
            numbers = range(self.acknowledged, self.acknowledged + AT_ONCE)
            for n in numbers:
                self.raw.publish("load/n", b"%d" % n, 1, 1 + n % 1000)
            self.raw.publish("kept/n", b"%d" % numbers[-1], 1, 2000)
            # The last one is retained as well, so that this changes, too.
            self.raw.send(packets.publish("kept/r", b"%d" % numbers[-1], 1, 2001, retain=True))
            for _ in range(AT_ONCE + 2):
                self.raw.expect("PUBACK")
            self.acknowledged += AT_ONCE
            self.enough.wait(PAUSE_S)

    def stop(self) -> None:
        self.enough.set()
        self.join()
        self.raw.close()


class Reader(Thread):
    """A lasting session whose client takes and acknowledges all: its queue changes all the time."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.raw = Raw(("127.0.0.1", port))
        self.raw.connect("reader", clean=False)
        self.raw.subscribe("load/#", 1)

    def run(self) -> None:
        while (packet := self.raw.receive()) is not None:
            try:
                self.raw.send(packets.puback(packet.pid))
            except OSError:
                return


class ExportTests(BrokerCase):
    def busy(self, store: str, directory: Path) -> tuple[Broker, Publisher]:
        """A broker with sessions that are away, one that is not, and messages that come."""
        broker = self.start(f"[store]\n{store}\n", directory)
        for n in range(SESSIONS):
            raw = Raw(("127.0.0.1", broker.port))
            raw.connect(f"away-{n}", clean=False)
            raw.subscribe("load/#", 1)
            raw.close()
        Reader(broker.port).start()
        publisher = Publisher(broker.port)
        publisher.start()
        self.addCleanup(publisher.stop)
        wait_until(lambda: publisher.acknowledged >= BEFORE, "messages wait")
        return broker, publisher

    def check(self, store: str, directory: Path, one_moment: bool) -> None:
        broker, publisher = self.busy(store, directory)
        for _ in range(3):
            low = publisher.acknowledged
            said = mhub(broker, "store", "export", "--output", "out.jsonl")
            self.assertIn("exported from ", said)
            self.assertGreater(publisher.acknowledged, low, "nothing was published meanwhile")
            last = self.check_export(broker.directory / "out.jsonl", low, one_moment)
        publisher.stop()
        self.check_import(broker.directory / "out.jsonl", last)

    def check_export(self, file: Path, low: int, one_moment: bool) -> dict[str, int]:
        """Each queue has all numbers up to one, which is the same one if all is of one moment."""
        lines = [json.loads(line) for line in file.read_text().splitlines()[1:]]
        clients = {line["sid"]: line["client_id"] for line in lines if line["kind"] == "session"}
        messages = {line["mid"]: line["body"] for line in lines if line["kind"] == "message"}
        queues: dict[str, list[int]] = defaultdict(list)
        deliveries = [line for line in lines if line["kind"] == "delivery"]
        for line in sorted(deliveries, key=lambda line: (line["sid"], line["seq"])):
            body = line.get("body") or messages[line["mid"]]
            if body["topic"] == "load/n":
                queues[clients[line["sid"]]].append(int(body["payload"]))
        reader = queues.pop("reader", [])
        self.assertEqual(reader, list(range(reader[0], reader[-1] + 1)) if reader else [])
        self.assertEqual(sorted(queues), sorted(f"away-{n}" for n in range(SESSIONS)))
        for numbers in queues.values():
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertGreaterEqual(len(numbers), low)
        lengths = {len(numbers) for numbers in queues.values()}
        if one_moment:
            self.assertEqual(len(lengths), 1)
            retained = [line["body"] for line in lines if line["kind"] == "retained"]
            (kept,) = (int(body["payload"]) for body in retained if body["topic"] == "kept/r")
            # It is published behind its numbers, and before the next.
            self.assertLessEqual(kept, max(lengths))
            self.assertGreaterEqual(kept, max(lengths) - 2 * AT_ONCE)
        return {client_id: len(numbers) for client_id, numbers in queues.items()}

    def check_import(self, file: Path, last: dict[str, int]) -> None:
        """Another broker goes on with what was exported."""
        directory = place(self)
        (directory / "broker.toml").write_text(PLAIN)
        command = [sys.executable, "-m", "mhub", "store", "import", "--config", "broker.toml"]
        ended = run([*command, str(file)], cwd=directory)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        other = self.start("", directory)
        raw = Raw(("127.0.0.1", other.port))
        self.assertTrue(raw.connect("away-7", clean=False).session_present)
        for n in range(last["away-7"]):
            packet = raw.expect("PUBLISH", payload=b"%d" % n)
            raw.send(packets.puback(packet.pid))
        raw.ping()
        raw.close()

    def test_sqlite(self) -> None:
        self.check('kind = "sqlite"\nqueue_window = 20', place(self), True)

    def test_memory(self) -> None:
        self.check('kind = "memory"', place(self), False)

    def test_redis(self) -> None:
        server = RedisServer()
        self.addCleanup(server.remove)
        self.check(
            f'kind = "redis"\nqueue_window = 20\nredis.port = {server.port}', place(self), True
        )


class ClientTests(BrokerCase):
    def test_see_and_kick(self) -> None:
        broker = self.start()
        raw = Raw(("127.0.0.1", broker.port), 5)
        raw.connect("pump\n7", keepalive=60)
        status = json.loads(mhub(broker, "ctl", "status", "--json"))
        self.assertEqual((status["state"], status["sessions"]["connected"]), ("running", 1))
        self.assertEqual(status["connections"]["open"], 1)
        self.assertIn("plain, mqtt://127.0.0.1:", mhub(broker, "ctl", "status"))
        self.assertIn(f"pump\\x0a7  {raw.local}", mhub(broker, "ctl", "clients"))
        self.assertIn("keep-alive 1m\n", mhub(broker, "ctl", "clients", "pump\n7"))
        self.assertEqual(
            mhub(broker, "ctl", "kick", "pump\n7"),
            "pump\\x0a7: disconnected, its session is deleted\n",
        )
        raw.expect("DISCONNECT", reason=0x98)
        raw.expect_closed()
        broker.wait_for_log("disconnected by an operator")
