"""How fast clients may be: token buckets, and who waits for them.

A bucket holds as many tokens as `rate` brings in `burst_s` seconds.  Whoever finds something in it
may go on, and takes what it costs, which may be more than there is: a message that is longer than
the whole bucket passes, and those behind it wait for longer.  So in the long run exactly the rate
is kept, and at once no more than the burst and one message come.

What is kept of a bucket is one number, the time at which it will be full again.  A token is a piece
of time then, 1 / rate seconds, and a bucket may be shared by connections whose limits differ, or
change while they are there: each pays by its own rate.

    Bucket    of a client, a user, a tenant, a listener: one for messages, one for bytes
    Gate      a bucket, as one connection sees it: rate, burst, what happens when it is empty
    Meter     all gates of one connection; without any limit there is no Meter
    Throttle  those who wait, and their turn when there are tokens again

A connection that has to wait is put off: what was read of it stays where it is, and nothing more is
read (`RATE` in `mhub.core.connection`).  It is in the `waiting` of one bucket, and has no timer:
the hub's tick looks at the buckets that somebody waits for, and shares out what is in them.  Who
waits gets credit, equal parts of it, in the order in which they came, and may send as long as it
has some; whoever has more to send is last again, and what its last packet cost too much is taken
from its next part.  So all of them get the same in the long run, in messages or in bytes, whatever
the sizes of their packets are.  Nobody passes those who wait, so that none of them starves.

Time is an argument, and nothing here knows a connection: `Throttled` is what is asked of it.
"""

from typing import Final, Protocol

from mhub.core import events
from mhub.core.limits import DISCONNECT, DROP, Limits
from mhub.wire.packets import PUBLISH

# What a meter says of a packet.
PASS: Final = 0
HOLD: Final = 1
SKIP: Final = 2
END: Final = 3

TINY_S: Final = 1e-6
"""What is left in a bucket that is as good as empty: sums of fractions are not exact."""

MAX_ADDRESSES: Final = 10_000
"""Addresses whose connects are counted; one that has not come for a while is forgotten."""


class Throttled(Protocol):
    """A connection, as far as rates are about it."""

    def rate_opened(self, gate: "Gate", now: float) -> None:
        """It may go on, as long as it has credit at the gate where it has waited."""


class Bucket:
    def __init__(self) -> None:
        self.full_at = 0.0
        self.waiting: dict[Throttled, Gate] | None = None
        self.queues = 1  # how often somebody was the first who had to wait

    def take(self, cost_s: float, now: float) -> None:
        if self.full_at < now:
            self.full_at = now
        self.full_at += cost_s

    def is_empty(self, burst_s: float, now: float) -> bool:
        return self.full_at - now > burst_s - TINY_S

    def is_full(self, now: float) -> bool:
        return self.full_at <= now


class Gate:
    def __init__(
        self, bucket: Bucket, rate: float, burst_s: float, action: str, cause: int
    ) -> None:
        self.bucket = bucket
        self.token_s = 1.0 / rate
        self.burst_s = burst_s
        self.action = action
        self.cause = cause  # which limit it is: an index of events.LIMITS
        self.credit_s = 0.0  # in time, as tokens are; below 0: it had more than its part
        self.queue = 0  # since when: the number of the bucket's queue

    def is_empty(self, now: float) -> bool:
        return self.bucket.is_empty(self.burst_s, now)


class Meter:
    """What one connection may send and receive."""

    def __init__(self) -> None:
        self.messages: list[Gate] = []
        self.bytes: list[Gate] = []
        self.out: Gate | None = None
        self.longest_topic = 0  # bytes; 0: any
        self.most_levels = 0  # 0: any
        self.granted: Gate | None = None  # where it has its turn
        self.stopped: Gate | None = None  # the one that said no

    def judge(self, first: int, size: int, now: float) -> int:
        """Whether a packet may pass, which then has paid; else `stopped` is why not."""
        is_message = first >> 4 == PUBLISH
        stopped: Gate | None = None
        verdict = PASS
        if is_message:
            for gate in self.messages:
                if self._is_closed(gate, now):
                    found = _verdict(gate, first)
                    if found > verdict:
                        stopped = gate
                        verdict = found
        for gate in self.bytes:
            if self._is_closed(gate, now):
                found = _verdict(gate, first)
                if found > verdict:
                    stopped = gate
                    verdict = found
        if stopped is not None:
            self.stopped = stopped
            return verdict
        if is_message:
            for gate in self.messages:
                self._pay(gate, gate.token_s, now)
        for gate in self.bytes:
            self._pay(gate, gate.token_s * size, now)
        return PASS

    def _is_closed(self, gate: Gate, now: float) -> bool:
        if gate.is_empty(now):
            return True
        if self.granted is gate:
            return gate.credit_s <= 0.0
        return gate.bucket.waiting is not None  # those who wait come first

    def _pay(self, gate: Gate, cost_s: float, now: float) -> None:
        gate.bucket.take(cost_s, now)
        if self.granted is gate:
            gate.credit_s -= cost_s

    def gates(self) -> list[Gate]:
        found = self.messages + self.bytes
        if self.out is not None:
            found.append(self.out)
        return found


def _verdict(gate: Gate, first: int) -> int:
    """What becomes of a packet at a gate that is closed."""
    if gate.action == DISCONNECT:
        return END
    # QoS 0: whoever sent another one is told that it has arrived, so it has to.
    if gate.action == DROP and first >> 4 == PUBLISH and not first & 0x06:
        return SKIP
    return HOLD


class Buckets:
    """Those of one client, user, tenant or listener."""

    def __init__(self) -> None:
        self.messages = Bucket()
        self.bytes = Bucket()
        self.out = Bucket()

    def is_full(self, now: float) -> bool:
        return self.messages.is_full(now) and self.bytes.is_full(now) and self.out.is_full(now)


def is_metered(limits: Limits, most_levels: int) -> bool:
    """Whether these limits are asked about each packet; most_levels is what holds for all."""
    return (
        limits.max_messages_per_s > 0
        or limits.max_bytes_per_s > 0
        or limits.max_messages_out_per_s > 0
        or limits.max_user_messages_per_s > 0
        or limits.max_user_bytes_per_s > 0
        or limits.max_tenant_messages_per_s > 0
        or limits.max_tenant_bytes_per_s > 0
        or limits.max_listener_messages_per_s > 0
        or limits.max_listener_bytes_per_s > 0
        or limits.max_topic_length < 65535
        or limits.max_topic_levels < most_levels
    )


def meter_of(
    limits: Limits,
    most_levels: int,
    client: Buckets,
    user: Buckets | None,
    tenant: Buckets | None,
    listener: Buckets,
) -> Meter:
    """What a connection gets; who has proved no user, or has no tenant, has None for it."""
    meter = Meter()
    meter.messages = _gates(
        [
            (client, limits.max_messages_per_s, limits.over_messages_per_s, events.MESSAGES),
            (
                user,
                limits.max_user_messages_per_s,
                limits.over_user_messages_per_s,
                events.USER_MESSAGES,
            ),
            (
                tenant,
                limits.max_tenant_messages_per_s,
                limits.over_tenant_messages_per_s,
                events.TENANT_MESSAGES,
            ),
            (
                listener,
                limits.max_listener_messages_per_s,
                limits.over_listener_messages_per_s,
                events.LISTENER_MESSAGES,
            ),
        ],
        limits.rate_burst_s,
        False,
    )
    meter.bytes = _gates(
        [
            (client, limits.max_bytes_per_s, limits.over_bytes_per_s, events.BYTES),
            (user, limits.max_user_bytes_per_s, limits.over_user_bytes_per_s, events.USER_BYTES),
            (
                tenant,
                limits.max_tenant_bytes_per_s,
                limits.over_tenant_bytes_per_s,
                events.TENANT_BYTES,
            ),
            (
                listener,
                limits.max_listener_bytes_per_s,
                limits.over_listener_bytes_per_s,
                events.LISTENER_BYTES,
            ),
        ],
        limits.rate_burst_s,
        True,
    )
    if limits.max_messages_out_per_s > 0:
        meter.out = Gate(
            client.out,
            limits.max_messages_out_per_s,
            limits.rate_burst_s,
            limits.over_messages_out_per_s,
            events.MESSAGES_OUT,
        )
    if limits.max_topic_length < 65535:
        meter.longest_topic = limits.max_topic_length
    if limits.max_topic_levels < most_levels:
        meter.most_levels = limits.max_topic_levels
    return meter


def _gates(
    wanted: list[tuple[Buckets | None, float, str, int]], burst_s: float, is_bytes: bool
) -> list[Gate]:
    """Of those that have a rate."""
    found: list[Gate] = []
    for buckets, rate, action, cause in wanted:
        if buckets is not None and rate > 0:
            bucket = buckets.bytes if is_bytes else buckets.messages
            found.append(Gate(bucket, rate, burst_s, action, cause))
    return found


class Throttle:
    """Who waits for tokens, and the buckets of clients and listeners.

    A client that comes back finds its bucket as it left it, until that would be full.
    """

    def __init__(self) -> None:
        self.awaited: dict[Bucket, bool] = {}
        self.clients: dict[str, Buckets] = {}
        self.gone: dict[str, bool] = {}  # clients whose buckets are not full yet
        self.listeners: dict[str, Buckets] = {}

    def of_client(self, client_id: str) -> Buckets:
        self.gone.pop(client_id, None)
        found = self.clients.get(client_id)
        if found is None:
            found = self.clients[client_id] = Buckets()
        return found

    def of_listener(self, name: str) -> Buckets:
        found = self.listeners.get(name)
        if found is None:
            found = self.listeners[name] = Buckets()
        return found

    def wait(self, gate: Gate, throttled: Throttled) -> None:
        bucket = gate.bucket
        if bucket.waiting is None:
            bucket.waiting = {}
            bucket.queues += 1
        if gate.queue != bucket.queues:
            gate.queue = bucket.queues
            gate.credit_s = 0.0
        bucket.waiting[throttled] = gate
        self.awaited[bucket] = True

    def waiting(self) -> int:
        """How many wait now."""
        found = 0
        for bucket in self.awaited:
            if bucket.waiting is not None:
                found += len(bucket.waiting)
        return found

    def leave(self, throttled: Throttled, meter: Meter) -> None:
        """It does not wait any more: it is gone, or its limits are others now."""
        for gate in meter.gates():
            waiting = gate.bucket.waiting
            if waiting is not None:
                waiting.pop(throttled, None)

    def forget_client(self, client_id: str, now: float) -> None:
        """It is not connected any more."""
        buckets = self.clients.get(client_id)
        if buckets is None:
            return
        if buckets.is_full(now):
            del self.clients[client_id]
        else:
            self.gone[client_id] = True

    def tick(self, now: float) -> None:
        if self.awaited:
            for bucket in list(self.awaited):
                self._share_out(bucket, now)
                if not bucket.waiting:
                    bucket.waiting = None
                    self.awaited.pop(bucket, None)
        if self.gone:
            for client_id in list(self.gone):
                if self.clients[client_id].is_full(now):
                    del self.clients[client_id]
                    del self.gone[client_id]

    def _share_out(self, bucket: Bucket, now: float) -> None:
        """Equal credit for all who wait, again and again while there is something left.

        This ends: in each round somebody has its turn, and takes something out of the bucket or
        waits no more.
        """
        while bucket.waiting:
            waiting = list(bucket.waiting.items())
            left_s = waiting[0][1].burst_s - (bucket.full_at - now)
            credit_s = left_s / len(waiting)
            best_s = max([gate.credit_s for _, gate in waiting])
            if best_s + credit_s <= 0.0:
                credit_s -= best_s  # nobody would have its turn: who is the nearest to it
            for throttled, gate in waiting:
                if gate.is_empty(now):
                    return
                if throttled not in bucket.waiting:
                    continue  # what another one has sent was its end
                gate.credit_s += credit_s
                if gate.credit_s <= 0.0:
                    continue
                del bucket.waiting[throttled]
                throttled.rate_opened(gate, now)
                if throttled not in bucket.waiting:
                    gate.credit_s = min(gate.credit_s, 0.0)


class AddressRates:
    """How often each address connects; a bounded table.

    An address whose bucket is full again is as good as unknown.  If that makes no room, those go
    that came first: they have been counted for the longest time.
    """

    def __init__(self, most: int = MAX_ADDRESSES) -> None:
        self.most = most
        self.evicted = 0  # before their buckets were full
        self.buckets: dict[str, Bucket] = {}

    def may_connect(self, address: str, rate: float, burst_s: float, now: float) -> bool:
        network = network_of(address)
        bucket = self.buckets.get(network)
        if bucket is None:
            if len(self.buckets) >= self.most:
                self._make_room(now)
            bucket = self.buckets[network] = Bucket()
        if bucket.is_empty(burst_s, now):
            return False
        bucket.take(1.0 / rate, now)
        return True

    def _make_room(self, now: float) -> None:
        """For a tenth of them at once, so that this is rare."""
        self.buckets = {name: each for name, each in self.buckets.items() if not each.is_full(now)}
        excess = len(self.buckets) - self.most + self.most // 10 + 1
        if excess > 0:
            for name in list(self.buckets)[:excess]:
                del self.buckets[name]
            self.evicted += excess


def network_of(address: str) -> str:
    """Whom a connection counts for: its address without the port, of IPv6 the network (/64).

    Whoever has one address of an IPv6 network can have all of them.
    """
    if not address.startswith("["):
        return address.rpartition(":")[0] or address
    host = address[1:].partition("]")[0].partition("%")[0]
    before, gap, behind = host.partition("::")
    groups = before.split(":") if before else []
    if gap:
        last = behind.split(":") if behind else []
        groups += ["0"] * (8 - len(groups) - len(last)) + last
    if "." in groups[-1]:  # IPv4, at a listener for both
        return groups[-1]
    return ":".join(groups[:4])
