"""`mhub ctl top`: clients and topics by rate, on a full screen that is drawn anew every 2 seconds.

    fetcher thread -> the broker, every interval -> newest Numbers -> wakes the screen
    screen         <- keys, SIGWINCH, the fetcher;  draws

The terminal is driven by a dozen of ANSI sequences; it is given back as it was, whatever happens.
A broker that does not answer for a while is told of in the second line, and asked on.
"""

import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from argparse import ArgumentTypeError, Namespace
from types import FrameType, TracebackType
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.client import Api
from mhub.ctl.command import Single, add_scope, as_json, missing_of, scope_of, width
from mhub.ctl.top_view import CLIENT_SORTS, VIEWS, Numbers, Shown, once, rates_of, screen

MOST: Final = 100
"""Rows that are asked for: more than a screen has."""

ENTER: Final = "\x1b[?1049h\x1b[?25l"  # another screen, without a cursor
LEAVE: Final = "\x1b[?25h\x1b[?1049l"
HOME: Final = "\x1b[H"
END_LINE: Final = "\x1b[K"
END_SCREEN: Final = "\x1b[J"

SORT_KEYS: Final = {
    "i": "messages_in_per_s",
    "o": "messages_out_per_s",
    "I": "bytes_in_per_s",
    "O": "bytes_out_per_s",
    "w": "queued",
}


def main(argv: list[str]) -> int:
    """Run it until it is quit; the result is the exit status."""
    command = Single(
        "top",
        "Watch clients and topics by rate. Keys: q quits; i, o, I and O sort clients by messages"
        " and bytes, in and out, w by what is queued for them; b switches topics between messages"
        " and bytes; v shows clients, topics, or both; space pauses. Where there is no terminal,"
        " it prints what there is, once.",
        _top,
    )
    parser = command.parser
    parser.add_argument("--once", action="store_true", help="print what there is, and end")
    parser.add_argument(
        "--interval", type=_interval, default=2.0, metavar="S", help="seconds between two looks (2)"
    )
    parser.add_argument(
        "--sort",
        default="messages_in_per_s",
        choices=tuple(CLIENT_SORTS),
        metavar="FIELD",
        help=f"what clients are sorted by: {', '.join(CLIENT_SORTS)}",
    )
    add_scope(parser)
    return command.run(argv)


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0.2 <= seconds <= 3600:
        raise ArgumentTypeError("expected from 0.2 to 3600 seconds")
    return seconds


def _top(api: Api, args: Namespace) -> None:
    shown = Shown(sort=args.sort, interval_s=args.interval)
    source = Source(api, scope_of(args))
    numbers = source.ask(shown)  # before the screen is taken: it may not work at all
    has_screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if args.json:
        print(as_json(source.raw))
    elif args.once or not has_screen:
        print("\n".join(once(numbers, shown, width())))
    else:
        with Screen(source, shown, numbers) as running:
            running.run()


class Source:
    """Asks the broker."""

    def __init__(self, api: Api, scope: dict[str, str]) -> None:
        self._api = api
        self._scope = scope
        self.raw: dict[str, Any] = {}

    def ask(self, shown: Shown) -> Numbers:
        """Raises ControlError."""
        get = self._api.get
        status = get("status")
        rates = rates_of(status, self.raw.get("status") or {})
        clients = get("clients/top", by=shown.sort, limit=MOST, **self._scope)
        topics = get("topics/top", by=shown.topic_sort, limit=MOST, **self._scope)
        self.raw = {"status": status, "clients": clients, "topics": topics}
        missing = {**missing_of(clients), **missing_of(topics)}
        return Numbers(
            time.time(),
            status,
            rates,
            clients.get("clients") or (),
            topics.get("topics") or (),
            tuple(missing),
        )


class Screen:
    """Used as a context: the terminal is ours until the end of it."""

    def __init__(self, source: Source, shown: Shown, numbers: Numbers) -> None:
        self._source = source
        self._shown = shown
        self._numbers = numbers
        self._problem = ""
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._ask_now = threading.Event()
        self._ended = False
        self._was: Any = None
        self._was_winch: Any = None

    def __enter__(self) -> "Screen":
        self._was = termios.tcgetattr(sys.stdin)
        self._was_winch = signal.signal(signal.SIGWINCH, self._resized)
        # A signal may interrupt the other thread instead of select().
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        tty.setcbreak(sys.stdin)
        sys.stdout.write(ENTER)
        sys.stdout.flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._ended = True
        self._ask_now.set()
        sys.stdout.write(LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._was)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGWINCH, self._was_winch)
        return kind is KeyboardInterrupt  # the usual way to end it

    def run(self) -> None:
        threading.Thread(target=self._fetch, daemon=True).start()
        while not self._ended:
            self._draw()
            readable, _, _ = select.select([sys.stdin, self._wake_in], [], [])
            if self._wake_in in readable:
                os.read(self._wake_in, 4096)
            if sys.stdin in readable:
                typed = os.read(sys.stdin.fileno(), 64)
                if not typed:  # the terminal is gone
                    return
                for key in typed.decode("utf-8", "replace"):
                    self._key(key)

    def _draw(self) -> None:
        columns, lines = shutil.get_terminal_size()
        made = screen(self._numbers, self._shown, self._problem, columns, lines)
        # Without a line feed behind the last one, which would scroll.
        sys.stdout.write(HOME + "\n".join(f"{line}{END_LINE}" for line in made) + END_SCREEN)
        sys.stdout.flush()

    def _key(self, key: str) -> None:
        shown = self._shown
        if key in ("q", "Q", "\x04"):
            self._ended = True
        elif key in SORT_KEYS:
            shown.sort = SORT_KEYS[key]
            self._ask_now.set()
        elif key == "b":
            is_bytes = shown.topic_sort == "bytes_per_s"
            shown.topic_sort = "messages_per_s" if is_bytes else "bytes_per_s"
            self._ask_now.set()
        elif key == "v":
            shown.view = VIEWS[(VIEWS.index(shown.view) + 1) % len(VIEWS)]
        elif key == " ":
            shown.is_paused = not shown.is_paused
            self._ask_now.set()

    def _resized(self, number: int, frame: FrameType | None) -> None:
        """The signal has woken us: the next drawing asks for the size."""

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except BlockingIOError:
            pass  # it will wake up anyway

    def _fetch(self) -> None:
        """In a thread: keys are answered while a broker is slow."""
        while not self._ended:
            self._ask_now.wait(self._shown.interval_s)
            self._ask_now.clear()
            if self._ended or self._shown.is_paused:
                continue
            try:
                self._numbers = self._source.ask(self._shown)
                self._problem = ""
            except ControlError as error:
                self._problem = str(error)
            self._wake()
