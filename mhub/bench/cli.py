"""`mhub bench [URL] [options]`: the command line.

Exit status: 0 measured; 1 could not measure, or the broker broke off; 2 wrong options;
3 measured, but the broker lost, repeated or mixed up what its QoS promises; 130 interrupted.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType
from typing import Final

from mhub import __version__
from mhub.bench import target as targets
from mhub.bench.errors import BenchError
from mhub.bench.load import client as hot
from mhub.bench.plan import CONNECTIONS, LATENCY, SCENARIOS, Plan, check, matrix, plan
from mhub.bench.progress import Progress
from mhub.bench.report import report
from mhub.bench.result import Result
from mhub.bench.run import Run
from mhub.bench.usage import Meter
from mhub.bench.wires import TlsOptions, tls_context

MEASURED: Final = 0
FAILED: Final = 1
USAGE: Final = 2
FAULTY: Final = 3
INTERRUPTED: Final = 130

PASSWORD_VARIABLE: Final = "MHUB_BENCH_PASSWORD"

_VERSIONS: Final = {"3.1.1": 4, "5": 5}
_DEFAULTS: Final = Plan("")

_EPILOG: Final = f"""\
scenarios
{chr(10).join(f"  {name:12} {text}" for name, text in SCENARIOS.items())}

examples
  mhub bench                                        the matrix, against 127.0.0.1:1883
  mhub bench --pid $(pidof mosquitto)               with the broker's processor time
  mhub bench --scenario latency --rate 5000 --qos 1
  mhub bench --scenario fan-out --subs 1000 ws://127.0.0.1:8083/mqtt
  mhub bench --scenario connections --clients 5000 --json
"""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        plans = _plans(options)
        target = _target(options)
    except BenchError as error:
        return _complain(error, USAGE)
    try:
        return _Command(options, plans, target).run()
    except BenchError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `mhub bench | head`: nobody reads on, not even what Python flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _complain(error: BenchError, status: int) -> int:
    print(f"mhub bench: {error.text}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return status


class _Command:
    """One call of the command."""

    def __init__(
        self, options: argparse.Namespace, plans: list[Plan], target: targets.Target
    ) -> None:
        self._options = options
        self._target = target
        self._plans = plans
        self._is_stopping = False
        self._results: list[Result] = []
        plain = not _speaks_unicode()
        on_terminal = sys.stderr.isatty()
        self._progress = Progress(
            sys.stderr, on_terminal, not on_terminal and not options.json, plain
        )
        self._plain = plain

    def run(self) -> int:
        options, target = self._options, self._target
        tls = None
        if target.tls:
            files = TlsOptions(options.cafile, options.insecure, options.certfile, options.keyfile)
            tls = tls_context(files)
        addresses = targets.resolve(target)
        targets.check_consent(target, addresses, options.consent)
        version = _VERSIONS[options.version]
        run = Run(target, addresses, tls, version, options.timeout, Meter(options.pid))
        name = run.probe()
        if not options.json:
            print(_headline(target, options.version, name, self._plans[0]), flush=True)
        trouble = self._measure(run)
        self._tell(name)
        if trouble is not None:
            raise trouble
        return self._status()

    def _measure(self, run: Run) -> BenchError | None:
        """All plans, or as many as there is an answer to."""
        before = signal.getsignal(signal.SIGINT)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:  # only there can signals be had
            signal.signal(signal.SIGINT, self._interrupted)
        try:
            for number, one in enumerate(self._plans, 1):
                self._progress.begin(one, number, len(self._plans))
                result = run.measure(one, self._tick)
                self._results.append(result)
                self._progress.end(result)
                if self._is_stopping or result.trouble:
                    break
        except BenchError as error:
            self._progress.clear()
            return error
        finally:
            if is_main:
                signal.signal(signal.SIGINT, before)
        return None

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """The first Ctrl-C ends the measurement in good order; a second one ends the process."""
        if self._is_stopping:
            raise KeyboardInterrupt
        self._is_stopping = True

    def _tick(self, part: float, done: int) -> bool:
        self._progress.tick(part, done)
        return not self._is_stopping

    def _tell(self, name: str) -> None:
        if self._options.json:
            found = {
                "tool": f"mhub bench {__version__}",
                "url": str(self._target),
                "mqtt": self._options.version,
                "broker": name,
                "load_build": _build(),
                "results": [result.to_json() for result in self._results],
            }
            print(json.dumps(found), flush=True)
        elif self._results:
            print(f"\n{report(self._results, self._plain)}", flush=True)

    def _status(self) -> int:
        if self._is_stopping:
            return INTERRUPTED
        if any(result.trouble for result in self._results):
            return FAILED
        return FAULTY if any(result.is_faulty for result in self._results) else MEASURED


def _headline(target: targets.Target, version: str, name: str, first: Plan) -> str:
    broker = f", {name}" if name else ""
    lines = [f"{target}, MQTT {version}{broker}"]
    if first.scenario != CONNECTIONS:
        what = f"{first.pubs} to {first.subs} clients, payload {first.size} bytes"
        if first.scenario != LATENCY:
            what += f", window {first.window}"
        lines.append(f"{what}, {first.seconds:g} s each; load side {_build()}")
    return "\n".join(lines)


def _build() -> str:
    return "pure Python" if hot.__file__.endswith(".py") else "compiled"


def _speaks_unicode() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "█".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _target(options: argparse.Namespace) -> targets.Target:
    target = targets.parse(options.url)
    if options.username is not None:
        target = replace(target, username=options.username)
    password = options.password or os.environ.get(PASSWORD_VARIABLE)
    if password is not None:
        target = replace(target, password=password)
    if target.password is not None and target.username is None:
        raise BenchError("a password needs a user name", "Give --username too.")
    return target


def _plans(options: argparse.Namespace) -> list[Plan]:
    base = replace(
        _DEFAULTS,
        size=options.size,
        window=options.window,
        rate=options.rate,
        seconds=options.seconds,
        clients=options.clients,
        version=_VERSIONS[options.version],
        topic_prefix=options.topic_prefix,
    )
    if options.scenario is None:
        plans = matrix(base, options.qos, options.pubs, options.subs)
    else:
        base = replace(base, qos=options.qos or 0)
        plans = [plan(base, options.scenario, options.pubs, options.subs)]
    for one in plans:
        check(one)
    return plans


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mhub bench",
        description="Load an MQTT broker, check every message, and tell how fast it was.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("url", nargs="?", default=targets.DEFAULT_URL, metavar="URL",
        help=f"mqtt, mqtts, ws, wss or unix (default: {targets.DEFAULT_URL})")  # fmt: skip
    add("--scenario", choices=list(SCENARIOS),
        help="default: throughput and latency, each at QoS 0, 1 and 2")  # fmt: skip
    add("--qos", type=int, choices=(0, 1, 2), help="default: 0; without --scenario: all three")
    add("--size", type=int, default=_DEFAULTS.size, metavar="BYTES", help="payload (64)")
    add("--pubs", type=int, metavar="N", help="publishers (10; fan-in 100, fan-out 1)")
    add("--subs", type=int, metavar="N", help="subscribers (10; fan-in 1, fan-out 100)")
    add("--window", type=int, default=_DEFAULTS.window, metavar="N",
        help="messages of a publisher on their way at once (100)")  # fmt: skip
    add("--rate", type=int, default=_DEFAULTS.rate, metavar="N",
        help="latency: messages a second, of all publishers (1000)")  # fmt: skip
    add("--seconds", type=float, default=_DEFAULTS.seconds, metavar="S",
        help="length of each scenario (3)")  # fmt: skip
    add("--clients", type=int, default=_DEFAULTS.clients, metavar="N",
        help="connections to open (1000)")  # fmt: skip
    add("--version", choices=list(_VERSIONS), default="3.1.1", help="of MQTT (3.1.1)")
    add("--topic-prefix", default=_DEFAULTS.topic_prefix, metavar="TOPIC",
        help=f"all topics begin with it ({_DEFAULTS.topic_prefix})")  # fmt: skip
    add("--username", metavar="NAME")
    add("--password", metavar="WORD", help=f"better in the environment, as {PASSWORD_VARIABLE}")
    add("--cafile", metavar="FILE", help="certificate authority that the broker's is from, PEM")
    add("--insecure", action="store_true", help="take any certificate")
    add("--certfile", metavar="FILE", help="certificate to show to the broker, PEM")
    add("--keyfile", metavar="FILE", help="its key, where that is in another file")
    add("--timeout", type=float, default=10.0, metavar="S", help="for connecting (10)")
    add("--pid", type=_pids, default=[], metavar="PID[,PID]",
        help="the broker's processes on this machine: tells their processor time")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object instead of the table")
    add(targets.CONSENT, dest="consent", action="store_true",
        help="load a host that is not this one")  # fmt: skip
    return parser


def _pids(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", " ").split()]
