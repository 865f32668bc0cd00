"""Pages of lists with 200,000 clients, subscriptions, topics and retained messages: how long a page
takes, and for how long others have to wait meanwhile.

    python tests/bench/lists_bench.py [--count 200000] [--rounds 5] [--limit 1000]

A hub without sockets, in this process.  Pages are asked for as the broker does, with the clock and
in slices; what a pause takes is not counted, as it is others' time.  A figure is the worst of its
rounds, of processor time: for a page, and for the longest stretch without a pause.  The bars are
50 ms and 2 ms for clients and subscriptions.  `walk` is what ticks do to make rates.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from mhub import build
from mhub.core.connection import Connection
from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.limits import Limits
from mhub.core.records import SubscriptionRecord
from mhub.operations.operations import Operations
from mhub.wire.publish import Publish

BAR_MS: Final = 50.0
STRETCH_BAR_MS: Final = 2.0


class Outlet:
    def write(self, data: bytes) -> bool:
        return True

    def close(self, linger: bool) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Around:
    store_name = "memory"
    cluster = None

    def settle(self) -> None: ...


def fill(count: int) -> Hub:
    settings = HubSettings()
    settings.route_cache_size = count
    now = time.monotonic()
    hub = Hub(settings, Events([]), lambda: "x", now)
    chance = random.Random(1)
    limits = Limits()
    numbers = list(range(count))
    chance.shuffle(numbers)
    for n in numbers:
        client_id = f"sensor-{n:06}-{n % 977}"
        session = hub.new_session(client_id, limits)
        session.principal.client_id = client_id
        if n % 4:
            connection = Connection(hub, Outlet(), limits, now, f"10.0.{n % 256}.1:5000", "mqtt")
            connection.client_id = client_id
            connection.version = 5
            connection.session = session
            connection.connected_at = now + chance.random()
            connection.messages_in = chance.randrange(1000)
            connection.bytes_in = 100 * connection.messages_in
            session.connection = connection
            session.principal = connection.principal
        record = SubscriptionRecord(0, (f"site/{n % 50}/{n}/#", f"site/{n % 50}/{n}")[n % 2])
        if n % 10 == 0:
            record.name = f"$share/g{n % 100}/work/{n % 1000}/+"
        hub.router.add(session.put_subscription(record))
        topic = f"site/{n % 50}/{n}/t"
        message = Publish(topic.encode(), b"21.5", 0, n % 2 == 0)
        route = hub.router.find(message.topic_data)
        message.topic = route.topic
        message.topic_field = route.topic_field
        if message.retain:
            hub.retained.store(message, now)
        route.traffic.messages += 1 + n % 7
    return hub


class Pause:
    def __await__(self) -> Iterator[None]:
        yield


def measure(operation: Coroutine[Any, Any, Any]) -> tuple[float, float, Any]:
    """Milliseconds of a page, of its longest piece between two pauses, and the page."""
    pieces: list[float] = []
    while True:
        began = time.thread_time()
        try:
            operation.send(None)
            pieces.append(time.thread_time() - began)
        except StopIteration as end:
            pieces.append(time.thread_time() - began)
            return 1e3 * sum(pieces), 1e3 * max(pieces), end.value


def main() -> int:
    parser = argparse.ArgumentParser(description="pages of long lists")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    hub = fill(options.count)
    gc.disable()  # collections are not what is measured here
    operations = Operations(hub, Around(), time.monotonic, Pause)  # type: ignore[arg-type]
    limit = options.limit
    print(f"{build.kind()} build, {options.count:,} of each, pages of {limit}")

    started = time.monotonic()
    longest = 0.0
    for step in range(1, 41):
        began = time.thread_time()
        hub.traffic.tick(started + step * 0.25)
        longest = max(longest, time.thread_time() - began)
    print(f"{'walk, longest tick of 40':<48} {'':>9} {1e3 * longest:8.2f} ms")

    async def clients(**asked: Any) -> Any:
        return await operations.clients(limit=limit, **asked)

    async def subscriptions(**asked: Any) -> Any:
        return await operations.subscriptions(limit=limit, **asked)

    calls: list[tuple[str, bool, Callable[..., Any], dict[str, Any]]] = [
        (f"clients by {sort}", True, clients, {"sort": sort})
        for sort in (
            "client_id",
            "-client_id",
            "connected_at",
            "-connected_at",
            "-queued",
            "-subscriptions",
            "-messages_in",
            "messages_in_per_s",
            "-messages_in_per_s",
        )
    ]
    middle = f"sensor-{options.count // 2:06}"
    calls += [
        ("clients, page in the middle", True, clients, {"after": middle}),
        ("clients, pattern *-12*", True, clients, {"match": "*-12*"}),
        ("clients, pattern sensor-?????1-*", True, clients, {"match": "sensor-?????1-*"}),
        ("clients, connected, listener, pattern", True, clients,
         {"state": "connected", "listener": "mqtt", "match": "*9*", "sort": "-messages_in"}),
        ("subscriptions by filter", True, subscriptions, {}),
        ("subscriptions by -filter", True, subscriptions, {"sort": "-filter"}),
        ("subscriptions by client_id", True, subscriptions, {"sort": "client_id"}),
        ("subscriptions, pattern *7*/#", True, subscriptions, {"match": "*7*/#"}),
        ("subscriptions of a topic", True, subscriptions, {"topic": "site/7/7/t"}),
        ("subscriptions of a group", True, subscriptions, {"group": "g50"}),
        ("groups", False, operations.groups, {"limit": limit}),
        ("routes", False, operations.routes, {"topic": "work/7/x", "limit": limit}),
        ("topics, top", False, operations.topics_top, {"limit": limit}),
        ("topics, tree", False, operations.topics_tree, {"limit": limit}),
        ("topics, tree of a level", False, operations.topics_tree,
         {"prefix": "site/7", "limit": limit}),
        ("retained", False, operations.retained, {"limit": limit}),
        ("retained, site/+/+/t", False, operations.retained,
         {"topic_filter": "site/+/+/t", "limit": limit}),
        ("retained, tree", False, operations.retained_tree, {"limit": limit}),
    ]  # fmt: skip
    passed = True
    for name, judged, call, asked in calls:
        page_ms = stretch_ms = 0.0
        for _ in range(options.rounds):
            whole, stretch, result = measure(call(**asked))
            page_ms, stretch_ms = max(page_ms, whole), max(stretch_ms, stretch)
        items = next(value for value in vars(result).values() if isinstance(value, tuple))
        ok = page_ms <= BAR_MS and stretch_ms <= STRETCH_BAR_MS
        passed = passed and (ok or not judged)
        print(
            f"{name:<48} {page_ms:6.1f} ms {stretch_ms:8.2f} ms {len(items):6} items"
            f"{'' if ok else '  !'}"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
    sys.exit(main())
