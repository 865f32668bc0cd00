"""Numbers, for people, for Prometheus and for load balancers."""

from mhub.admin.endpoint import Call, endpoint
from mhub.admin.metrics.exposition import TEXT, expose, media_type
from mhub.operations.contract import Unavailable
from mhub.operations.readiness import Health, Readiness
from mhub.operations.slices import SLICE_S
from mhub.operations.stats import Stats


@endpoint("GET", "/stats", base="", resource="stats")
async def stats(call: Call) -> Stats:
    """Show the numbers of this node.

    Counters are since the start of the process, rates are moving averages over 1, 5 and 15
    minutes. The numbers of each client are in the list of clients.
    """
    return call.operations.stats()


@endpoint(
    "GET", "/metrics", base="", resource="stats", scope="metrics", public="metrics", stream=TEXT
)
async def metrics(call: Call) -> bytes:
    """Show the numbers of this node to Prometheus.

    In its text format, or as OpenMetrics if `Accept` asks for that. Whoever is not logged in, where
    `admin.metrics` is "open", is not told the version.
    """
    call.answer_type = media_type(call.accept)
    operations = call.operations
    pause = operations.slices(SLICE_S / 2)
    return await expose(operations.numbers(), call.answer_type, call.caller.is_known, pause)


@endpoint("GET", "/health", base="", public="open")
async def health(call: Call) -> Health:
    """Show whether the broker is up.

    It is down, with the status 503, while it stops.
    """
    found = call.operations.health()
    if found.status != "up":
        raise Unavailable(found.status)
    return found


@endpoint("GET", "/ready", base="", public="open")
async def ready(call: Call) -> Readiness:
    """Show whether a load balancer should send clients here.

    If not, the status is 503, and `detail` is one word: `starting`, `stopping`, `leaving`, `closed`
    (no listener is open), `cluster` (not joined yet), `store` (it fails) or `overloaded`.
    """
    found = call.operations.ready()
    if not found.ready:
        raise Unavailable(found.state)
    return found
