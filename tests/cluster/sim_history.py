"""A history of a cluster, and what must be true of it in the end.

    play(plan)     the violations found, and the history itself

What happens is the plan's (`tests.cluster.sim_plan`), or comes from it.

Every acknowledged message of QoS 1 and 2 reaches every lasting subscription, QoS 2 once; a client
id has its session on one node; retained messages are the same everywhere, and not older than what
was acknowledged; a will comes once.

Order, loss and duplicates are checked always.  The only excuse is Session Present 0 in a CONNACK
that the client read: it begins another lifetime of the client's session, and what was published
before that may come late, again, or not at all.  If nodes were apart at that time, this is so until
they are together again: those on the other side cannot know of the new session before.
"""

from collections import Counter

from tests.cluster.sim_clients import NEVER, Mortal, Publisher, SimClient, Subscriber
from tests.cluster.sim_plan import (
    BEGIN_S,
    HEIR,
    MORTAL,
    NODES,
    PUBLISHERS,
    SUBSCRIBERS,
    TAIL_S,
    Decision,
    Plan,
)
from tests.cluster.simulation import SimNode, Simulation


class History:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sim = sim = Simulation(plan.noise, "".join(NODES), shared=plan.shared)
        self.publishers = [
            Publisher(sim, name, 1 + n % 2, n > 1) for n, name in enumerate(PUBLISHERS)
        ]
        self.subscribers = [
            Subscriber(sim, name, 1 + n % 2, "t/#") for n, name in enumerate(SUBSCRIBERS)
        ]
        self.heir = Subscriber(sim, HEIR, 2, "w/#")
        self.mortal = Mortal(sim, MORTAL)
        self.clients: list[SimClient] = [
            *self.publishers,
            *self.subscribers,
            self.heir,
            self.mortal,
        ]
        for client in self.clients:
            client.waits_until = 3.0  # until the nodes have found each other
        for publisher in self.publishers:
            publisher.waits_until = BEGIN_S - 0.5  # and all have subscribed

    def play(self) -> list[str]:
        sim = self.sim
        sim.start()
        self._watch()
        sim.run(BEGIN_S)
        if not sim.whole():
            return ["the nodes do not find each other"]
        if not all(s.subscribed for s in [*self.subscribers, self.heir]):
            return ["somebody has not subscribed"]
        for decision in self.plan.decisions:
            sim.run(max(0.0, decision.at - sim.now))
            if decision.kind == "end":
                break
            self._do(decision)
        else:
            sim.run(TAIL_S)
        self._recover()
        return self._settle() or self._check()

    def _do(self, decision: Decision) -> None:
        sim = self.sim
        args = decision.args
        if decision.kind == "publish":
            publisher = next(each for each in self.publishers if each.name == args[0])
            publisher.publish(int(args[1]))
        elif decision.kind == "move":
            client = next(each for each in self.clients if each.name == args[0])
            sim.note(client.name, f"is cut off, and goes to {args[1]}")
            client.move(args[1], float(args[2]))
        elif decision.kind == "cut":
            sim.cut(*args)
        elif decision.kind == "slow":
            sim.note("sim", f"frames take up to {args[0]} s")
            sim.slow = float(args[0])
        elif decision.kind == "split":
            alone = set(args)
            sim.split(alone, set(NODES) - alone)
        elif decision.kind == "heal":
            sim.heal()
        elif decision.kind == "crash":
            node = sim.nodes[args[0]]
            if node.up:
                node.crash(float(args[1]), "zeros" in args)
        elif decision.kind == "start":
            self._restart(sim.nodes[args[0]])
        else:
            raise ValueError(f"there is no decision {decision.text()}")

    def _restart(self, node: SimNode) -> None:
        if self.sim.shared:
            node.come()
        elif not node.up:
            node.start()

    def _recover(self) -> None:
        """Nothing more goes wrong."""
        sim = self.sim
        sim.note("sim", "nothing more goes wrong")
        sim.heal()
        sim.slow = 0.005
        for node in sim.nodes.values():
            self._restart(node)
        self.mortal.lose()

    def _settle(self) -> list[str]:
        """Time for everything to come to rest."""
        sim = self.sim
        for _ in range(60):
            sim.run(1.0)
            wrong = self._restless()
            if not wrong:
                return []
        return [f"it does not come to rest: {', '.join(wrong)}"]

    def _restless(self) -> list[str]:
        """What is still going on."""
        sim = self.sim
        wrong = [] if sim.whole() else ["the nodes are not together"]
        for name, side in sim.nodes.items():
            if side.node is None or not side.serves:
                wrong.append(f"{name} does not serve")
                continue
            migration = side.node.migration
            for source in migration.sources.values():
                closed = sorted(source.intake.closed)
                wrong.append(f"{name} has {source.client_id} {source.state}, closed by {closed}")
            wrong += [f"{name} gave {given.client_id}" for given in migration.given.all.values()]
            for client_id, session in migration.intakes.gated.items():
                gates = sorted(migration.intakes.of(session).gates)
                wrong.append(f"{name} has {client_id} with closed gates for {gates}")
            for peer in side.node.peers.all:
                if peer.outgoing.queued:
                    wrong.append(f"{name} has {peer.outgoing.queued} for {peer.name}")
            for session in side.world.hub.sessions.values():
                if session.inflight or session.queued():
                    wrong.append(f"{name} has messages for {session.client_id}")
        wrong += [f"{p.name} waits" for p in self.publishers if not p.idle()]
        return wrong + [f"{c.name} is not connected" for c in self.clients if not c.ready]

    # What must be true

    def _check(self) -> list[str]:
        return [
            *self._check_messages(),
            *self._check_owners(),
            *self._check_retained(),
            *self._check_wills(),
        ]

    def _check_messages(self) -> list[str]:
        wrong = []
        for publisher in self.publishers:
            for subscriber in self.subscribers:
                who = f"{publisher.name} -> {subscriber.name}"
                got = subscriber.got.get(publisher.name, [])
                settled_at = subscriber.settled_at.get(subscriber.lifetime, NEVER)
                wanted = {
                    number
                    for number in publisher.acknowledged
                    if not subscriber.lifetime
                    or publisher.sent_at[number] > max(subscriber.subscribed_at, settled_at)
                }
                found = {
                    "lost": sorted(wanted - {number for _, number in got}),
                    "out of order": self._disordered(publisher, subscriber),
                }
                if publisher.qos == subscriber.qos == 2:
                    found["twice"] = self._twice(publisher, subscriber)
                for what, numbers in found.items():
                    if numbers:
                        wrong.append(f"{who}: {what} {numbers[:10]}")
        return wrong

    def _twice(self, publisher: Publisher, subscriber: Subscriber) -> list[int]:
        """What came twice within one lifetime of a session."""
        counts = Counter(subscriber.got.get(publisher.name, []))
        return [
            number
            for (lifetime, number), count in counts.items()
            if count > 1
            and number not in publisher.may_double
            and not self._is_late(publisher, subscriber, lifetime, number)
        ]

    def _is_late(
        self, publisher: Publisher, subscriber: Subscriber, lifetime: int, number: int
    ) -> bool:
        """Whether it is from before a session that began anew, and all nodes could know of it."""
        settled_at = subscriber.settled_at.get(lifetime, NEVER)
        return lifetime > 0 and publisher.sent_at[number] <= settled_at

    def _disordered(self, publisher: Publisher, subscriber: Subscriber) -> list[int]:
        """What came behind a later message, of its first copies within one lifetime.

        Not of messages from before that lifetime: what an earlier session had comes late.
        """
        found = []
        highest: dict[tuple[int, int], int] = {}
        seen: set[tuple[int, int]] = set()
        for lifetime, number in subscriber.got.get(publisher.name, []):
            is_late = self._is_late(publisher, subscriber, lifetime, number)
            if is_late or number in publisher.may_double or (lifetime, number) in seen:
                continue
            seen.add((lifetime, number))
            key = lifetime, publisher.sent_in[number]
            if number < highest.get(key, 0):
                found.append(number)
            highest[key] = max(highest.get(key, 0), number)
        return found

    def _watch(self) -> None:
        """See when all nodes are together: then a client that comes has one session."""
        sim = self.sim
        sim.later(0.2, self._watch)
        if not all(node.up for node in sim.nodes.values()) or not sim.whole():
            return
        for client in self.clients:
            nodes = [n for n in sim.nodes.values() if client.name in n.world.hub.sessions]
            if len(nodes) == 1 and client.ready:
                client.split = False
                client.settled_at.setdefault(client.lifetime, sim.now)

    def _check_owners(self) -> list[str]:
        wrong = []
        for client in self.clients:
            owners = [
                node.name
                for node in self.sim.nodes.values()
                if client.name in node.world.hub.sessions
            ]
            if len(owners) != 1:
                wrong.append(f"client {client.name} is on {owners}")
        return wrong

    def _check_retained(self) -> list[str]:
        wrong = []
        views = []
        for node in self.sim.nodes.values():
            kept = node.world.hub.retained.known()
            views.append({message.topic: message.payload for message in kept})
        if any(view != views[0] for view in views):
            wrong.append(f"retained messages differ: {views}")
        for publisher in self.publishers:
            if publisher.retain and publisher.acknowledged and not publisher.lifetime:
                value = views[0].get(f"t/{publisher.name}", b"x 0").split()[1]
                if int(value) < max(publisher.acknowledged):
                    newest = max(publisher.acknowledged)
                    wrong.append(f"retained of {publisher.name}: {value!r}, {newest} was later")
        return wrong

    def _check_wills(self) -> list[str]:
        got = [number for _, number in self.heir.got.get(self.mortal.name, [])]
        wrong = []
        if len(got) != len(set(got)) and not self.heir.lifetime:
            wrong.append(f"wills came twice: {got}")
        missing = []
        heir = self.heir
        since = 0.0
        if heir.lifetime:
            since = max(heir.subscribed_at, heir.settled_at.get(heir.lifetime, NEVER))
        for number, (node, boot, when) in self.mortal.died.items():
            if number not in got and node.boot == boot and when > since:
                missing.append(number)
        if missing:
            wrong.append(f"wills did not come: {missing}")
        return wrong


def play(plan: Plan) -> tuple[list[str], list[str]]:
    history = History(plan)
    try:
        wrong = history.play()
    except AssertionError as error:
        wrong = [f"{type(error).__name__}: {error} {error.__cause__!r}"]
    return wrong, history.sim.history
