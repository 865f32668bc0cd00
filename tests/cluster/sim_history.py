"""A history of a cluster from a seed, and what must be true of it in the end.

    play(seed, faults)   the violations found, and the history itself

Every acknowledged message of QoS 1 and 2 reaches every lasting subscription, QoS 2 once; a client
id has its session on one node; retained messages are the same everywhere, and not older than what
was acknowledged; a will comes once.

QoS 2 is exactly once as long as both sessions are there.  A client that was told that its session
is gone, as the node that has it cannot be reached, has two until they are merged; if nodes crash
meanwhile, it may get a message by both.

With the fault "adopt", nodes crash as well, for a longer time, and others stand in for them.
"""

from tests.cluster.sim_clients import Mortal, Publisher, SimClient, Subscriber
from tests.cluster.simulation import SimNode, Simulation

FAULTS = ("move", "cut", "slow", "split", "crash")


class History:
    def __init__(self, seed: int, faults: tuple[str, ...]) -> None:
        self.faults = faults
        self.crashes = "crash" in faults or "adopt" in faults
        self.sim = sim = Simulation(seed, shared="adopt" in faults)
        self.publishers = [Publisher(sim, f"p{n}", 1 + n % 2, n > 1) for n in range(4)]
        self.subscribers = [Subscriber(sim, f"s{n}", 1 + n % 2, "t/#") for n in range(3)]
        self.heir = Subscriber(sim, "heir", 2, "w/#")
        self.mortal = Mortal(sim, "m")
        self.clients: list[SimClient] = [
            *self.publishers,
            *self.subscribers,
            self.heir,
            self.mortal,
        ]
        for client in self.clients:
            client.waits_until = 3.0  # until the nodes have found each other
        for publisher in self.publishers:
            publisher.waits_until = 6.0  # and all have subscribed

    def play(self) -> list[str]:
        sim = self.sim
        sim.start()
        self._watch()
        sim.run(6.0)
        if not sim.whole():
            return ["the nodes do not find each other"]
        if not all(s.subscribed for s in [*self.subscribers, self.heir]):
            return ["somebody has not subscribed"]
        for _ in range(sim.random.randrange(10, 30)):
            sim.run(sim.random.uniform(0.1, 3.0))
            self._fault()
        self._recover()
        return self._settle() or self._check()

    def _fault(self) -> None:
        sim = self.sim
        kind = sim.random.choice(self.faults)
        names = sorted(sim.nodes)
        if kind == "move":
            client = sim.random.choice(self.clients)
            sim.note(client.name, "is cut off")
            client.lose()
        elif kind == "cut":
            sim.cut(*sim.random.sample(names, 2))
        elif kind == "slow":
            sim.slow = sim.random.choice((0.005, 0.05, 0.3))
        elif kind == "split":
            alone = set(sim.random.sample(names, 1))
            sim.split(alone, set(names) - alone)
            sim.later(sim.random.uniform(0.5, 15.0), sim.heal)
        else:
            node = sim.nodes[sim.random.choice(names)]
            if node.up:
                node.crash()
                longest_s = 15.0 if kind == "crash" else 40.0
                sim.later(sim.random.uniform(0.2, longest_s), lambda: self._restart(node))

    def _restart(self, node: SimNode) -> None:
        if self.sim.shared:
            node.come()
        elif not node.up:
            node.start()

    def _recover(self) -> None:
        """Nothing more goes wrong."""
        sim = self.sim
        sim.run(16.0)
        sim.heal()
        sim.slow = 0.005
        for node in sim.nodes.values():
            self._restart(node)
        self.mortal.lose()
        for client in [*self.publishers, self.mortal]:
            client.stopped = True

    def _settle(self) -> list[str]:
        """Time for everything to come to rest."""
        sim = self.sim
        for _ in range(60):
            sim.run(1.0)
            rest = all(
                node.serves
                and not node.node.moves.giver.count()
                and all(not peer.queued for peer in node.node.peers.all)
                and all(not s.inflight and not s.queued() for s in node.world.hub.sessions.values())
                for node in sim.nodes.values()
                if node.node is not None
            )
            idle = all(publisher.idle() for publisher in self.publishers)
            if sim.whole() and rest and idle and all(client.ready for client in self.clients):
                return []
        return ["it does not come to rest"]

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
                lost = sorted(set(publisher.acknowledged) - set(got))
                if lost:
                    wrong.append(f"{who}: lost {lost[:10]}")
                if publisher.qos == subscriber.qos == 2:
                    twice = self._twice(publisher, subscriber)
                    if twice:
                        wrong.append(f"{who}: twice {twice[:10]}")
        return wrong

    def _twice(self, publisher: Publisher, subscriber: Subscriber) -> list[int]:
        found = []
        seen: set[int] = set()
        times = subscriber.times.get(publisher.name, [])
        for number, at in zip(subscriber.got.get(publisher.name, []), times, strict=True):
            forked = self.crashes and any(a <= at <= b for a, b in subscriber.forks)
            if number in seen and number not in publisher.may_double and not forked:
                found.append(number)
            seen.add(number)
        return found

    def _watch(self) -> None:
        """See when sessions that were split are one again, and their clients have all of it."""
        sim = self.sim
        sim.later(0.2, self._watch)
        if not all(node.up for node in sim.nodes.values()) or not sim.whole():
            return
        for client in self.clients:
            nodes = [n for n in sim.nodes.values() if client.name in n.world.hub.sessions]
            if len(nodes) != 1:
                continue
            session = nodes[0].world.hub.sessions[client.name]
            if client.ready and not session.queued() and not session.inflight:
                for fork in client.forks:
                    fork[1] = min(fork[1], sim.now + 1.0)

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
            if publisher.retain and publisher.acknowledged:
                value = views[0].get(f"t/{publisher.name}", b"x 0").split()[1]
                if int(value) < max(publisher.acknowledged):
                    newest = max(publisher.acknowledged)
                    wrong.append(f"retained of {publisher.name}: {value!r}, {newest} was later")
        return wrong

    def _check_wills(self) -> list[str]:
        got = self.heir.got.get(self.mortal.name, [])
        wrong = []
        if len(got) != len(set(got)) and not self.heir.lost_sessions:
            wrong.append(f"wills came twice: {got}")
        missing = []
        for number, (node, boot) in self.mortal.died.items():
            if number not in got and node.boot == boot:
                missing.append(number)
        if missing:
            wrong.append(f"wills did not come: {missing}")
        return wrong


def play(seed: int, faults: tuple[str, ...] = FAULTS) -> tuple[list[str], list[str]]:
    history = History(seed, faults)
    try:
        wrong = history.play()
    except AssertionError as error:
        wrong = [f"{type(error).__name__}: {error} {error.__cause__!r}"]
    return wrong, history.sim.history
