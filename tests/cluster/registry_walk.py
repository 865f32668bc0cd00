"""The registry of a few nodes and nothing else: tables, rounds, stores, and what goes wrong there.

    walk = Walk(seed, forgets="word")   what happens comes from the seed
    walk.run(steps)                     changes, frames, commits, links, crashes, clocks
    walk.settle()                       nothing more goes wrong; the violations

Thousands of histories a minute: the whole cluster (`tests.cluster.simulation`) takes a second for
each.  Registry, Floors and Rounds are the real ones.  A link is two lists of frames in order; a
channel a list of change sets that outlives links and may outlive processes, so that a change can
come very late; a store has what was committed, and a crash leaves that.

What must be true:

    no resurrection    a node that knew of a deletion never serves an older value again, and in the
                       end no node does
    no loss            what a node has acknowledged is there in the end, or something newer is; but
                       for nodes that were forgotten, which take the table of the others, and for
                       what was only in the memory of nodes without a store
    seen by all        a tombstone goes when the stores of all known nodes have it
    one lineage        a cluster that began with one has one
    no way back        what a node has acknowledged, it serves, or something newer, also after a
                       crash
    agreement          in the end all tables and revisions are equal
    collection         in the end no tombstone is left
"""

import itertools
from collections import deque
from random import Random
from typing import Any

from mhub.cluster.rounds import Rounds
from mhub.core.hlc import NOTE as CLOCK_NOTE
from mhub.core.hlc import Clock
from mhub.core.journal import Journal
from mhub.core.records import publish_of
from mhub.core.registry import NOTE, PREFIX, Change, Registry
from mhub.wire.publish import Publish

EPOCH = 1_000_000.0
ROUND_S = 60.0
KEYS = ("user/alice", "user/bob", "rule/1", "ban/client/x")


class Peer:
    """Another node, as Rounds sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.resumed = True
        self.revision = ""


class Settings:
    forget_s = 0.0
    dead_s = 10.0
    round_s = ROUND_S


class Side:
    """A node: what Rounds needs of it, and its store."""

    def __init__(self, walk: "Walk", name: str, skew_s: float, durable: bool) -> None:
        self.walk = walk
        self.name = name
        self.skew_s = skew_s
        self.keeps = durable
        self.boot = 0
        self.up = False
        self.settings = Settings()
        self.links: dict[str, Any] = {}
        self.stored: dict[str, bytes] = {}
        self.notes: dict[str, str] = {}
        self.serves_at_least: dict[str, int] = {}  # key -> the version acknowledged here
        self.knew: dict[str, int] = {}  # key -> the highest version that its store had
        self.registry: Registry
        self.journal: Journal | None
        self.start()

    # What Rounds takes for the node and the hub

    @property
    def hub(self) -> "Side":
        return self

    @property
    def now(self) -> float:
        return self.walk.now

    def send(self, member: Peer, kind: int, body: bytes) -> None:
        if member.name in self.links:
            self.walk.frames[self.name, member.name].append((kind, body))

    # A process

    def start(self) -> None:
        self.boot += 1
        self.up = True
        self.durable = 0
        self.links = {}
        self.registry = Registry()
        self.registry.tombstone_s = self.walk.tombstone_s
        tokens = itertools.count()
        clock = Clock(self.name, EPOCH + self.skew_s)
        clock.saw(int(self.notes.get(CLOCK_NOTE, 0)))
        token = lambda: f"{self.name}{self.boot}{next(tokens)}"  # noqa: E731
        self.registry.join(clock, self._forward, token)
        self.journal = Journal(EPOCH + self.skew_s, 10, 1 << 30) if self.keeps else None
        if self.journal is not None:
            self.registry.keep_in(self.journal, True)
            if NOTE in self.notes:
                self.registry.recall_note(self.notes[NOTE])
            for body in self.stored.values():
                self.registry.recall(publish_of(body, EPOCH))
            self.registry.restored()
        self.rounds = Rounds(self)  # type: ignore[arg-type]
        self.changes: list[tuple[Change, dict[str, str | None], int]] = []
        self.tombstones: dict[str, int] = {}  # as they were at the last check
        self.floor = 0

    def _forward(self, message: Publish) -> None:
        for name in self.links:
            message.tracker.remote += 1  # type: ignore[union-attr]
            channel = self.walk.channels[self.name, name]
            channel.append([message.payload, message.tracker, False])

    def crash(self) -> None:
        for name in list(self.links):
            self.walk.cut(self.name, name)
        self.up = False
        if not self.keeps:
            self.stored, self.notes, self.knew, self.serves_at_least = {}, {}, {}, {}
        for other in self.walk.sides:
            if other != self.name:
                channel = self.walk.channels[self.name, other]
                kept = [each for each in channel if self.keeps and self.walk.random.random() < 0.5]
                channel.clear()
                channel.extend([payload, None, came] for payload, _, came in kept)

    def commit(self) -> None:
        journal = self.journal
        if journal is None:
            return
        clock = self.registry.clock
        if clock.last > clock.reserved:
            journal.note(CLOCK_NOTE, str(clock.reserve()))
        if not journal.batch.touched():
            return
        batch = journal.take()
        for topic, body in batch.retained.items():
            if body:
                self.stored[topic] = body
                key = topic[len(PREFIX) :]
                self.knew[key] = max(self.knew.get(key, 0), publish_of(body, 0.0).hlc)
            else:
                self.stored.pop(topic, None)
        self.notes.update(batch.notes)
        journal.under_way = None
        self.durable = self.registry.durable = batch.number

    def change(self, values: dict[str, str | None]) -> None:
        here = {key for key in values if self.registry.get(key) is not None}
        values = {k: v for k, v in values.items() if v is not None or k in here}
        if values:
            change = self.registry.change(values, self.now)
            version = self.registry.top
            self.walk.changed(self, values, version)
            self.changes.append((change, values, version))

    def acknowledge(self) -> None:
        """What is safe by now."""
        self.registry.release()
        left = []
        for change, values, version in self.changes:
            if change.is_safe():
                self.walk.acknowledged(self, values, version)
            else:
                left.append((change, values, version))
        self.changes = left

    def table(self) -> dict[str, tuple[int, str]]:
        return {each.key: (each.hlc, each.value) for each in self.registry.items("")}


class Walk:
    def __init__(
        self,
        seed: int,
        names: str = "abc",
        forgets: str = "",
        durable: bool = True,
        tombstone_s: float = 0.0,
        joins: bool = False,
    ) -> None:
        """`forgets`: nodes that are away for long ("time"), or also on somebody's word ("word").

        `joins`: the last node comes later, and for a while only one other can reach it.
        """
        self.random = Random(seed)
        self.now = 1000.0
        self.tombstone_s = tombstone_s
        self.forgets = forgets
        self.joins = joins
        self.blocked = {names[0], names[-1]} if joins else set()
        pairs = list(itertools.permutations(names, 2))
        self.frames: dict[tuple[str, str], deque[tuple[int, bytes]]] = {p: deque() for p in pairs}
        self.channels: dict[tuple[str, str], deque[list[Any]]] = {p: deque() for p in pairs}
        self.history: list[str] = []
        self.wrong: list[str] = []
        self.versions: dict[str, dict[int, str]] = {}  # key -> version -> value; "": deleted
        self.safe: dict[str, dict[int, str]] = {}  # key -> version -> who acknowledged it
        self.volatile = not durable
        self.one_lineage = False
        self.forgotten: set[str] = set()
        # Floors began at nothing again: lineages were merged, or somebody was told to forget nodes
        # that had forgotten it.  Then a deletion may be undone.
        self.merged = False
        self.counts: dict[str, int] = {}
        self.sides: dict[str, Side] = {}
        for name in names:
            skew_s = self.random.choice((0.0, self.random.uniform(-30.0, 30.0)))
            self.sides[name] = Side(self, name, skew_s, durable or self.random.random() < 0.5)

    def note(self, text: str) -> None:
        self.history.append(f"{self.now:9.2f} {text}")

    # What happens

    def run(self, steps: int) -> None:
        if self.random.random() < 0.9:
            # Most clusters are together when the first change is made: one lineage.
            names = [name for name in self.sides if not self.blocked or name not in max(self.sides)]
            for one, two in itertools.combinations(names, 2):
                self.link(one, two)
            self.sides[names[0]].change({KEYS[0]: '"first"'})
            self._flow()
            self.one_lineage = not self.blocked and not self.volatile
        kinds = ["change"] * 6 + ["frame"] * 60 + ["commit"] * 12 + ["time"] * 6 + ["tick"] * 6
        kinds += ["link"] * 4 + ["cut"] * 2 + ["crash", "start", "start", "round", "apart"]
        kinds += {"": [], "time": ["absence"], "word": ["absence", "forget"]}[self.forgets]
        for number in range(steps):
            if number == steps * 2 // 3:
                self.blocked = set()
            self._step(self.random.choice(kinds))
            self.check()
            if self.wrong:
                return

    def _step(self, kind: str) -> None:
        random = self.random
        side = self.sides[random.choice(list(self.sides))]
        other = random.choice([name for name in self.sides if name != side.name])
        if kind == "time":
            self.now += random.choice((0.001, 0.1, 3.0, ROUND_S))
        elif kind == "apart":
            self._apart(side)
        elif kind == "link":
            self.link(side.name, other)
        elif kind == "cut":
            self.cut(side.name, other)
        elif kind == "start":
            if not side.up:
                self.note(f"{side.name} starts")
                side.start()
        elif not side.up:
            return
        elif kind == "change":
            if self.joins and not side.registry.floors.lineage:
                return  # whoever joins waits for the table of the others
            keys = random.sample(KEYS, random.choice((1, 1, 2)))
            value = lambda: None if random.random() < 0.45 else f'"{random.randrange(1000)}"'  # noqa: E731
            values = {key: value() for key in keys}
            self.note(f"{side.name} changes {values}")
            side.change(values)
        elif kind == "frame":
            self.deliver(side.name, other)
        elif kind == "commit":
            side.commit()
            side.acknowledge()
        elif kind == "tick":
            side.rounds.tick(self.now)
            side.registry.collect(self.now)
        elif kind == "round":
            side.rounds.begin_all()
        elif kind == "crash":
            self.note(f"{side.name} crashes")
            side.crash()
        elif kind == "forget":
            if other not in side.links and other in side.registry.floors.nodes:
                self.note(f"{side.name} forgets {other}")
                self.forgotten.add(other)
                side.rounds.forget(other)
                self.channels[side.name, other].clear()
        elif kind == "absence":
            self._absence()

    def _absence(self) -> None:
        """Nobody is told: all who are away for this long are forgotten where most are."""
        self.note("a long time passes")
        for side in self.sides.values():
            side.settings.forget_s = 500.0
        for _ in range(2):
            self.now += 200.0
            self._turn()
            self._flow()
        self.now += 600.0
        for side in self.sides.values():
            if side.up:
                # What was kept for a node in a channel is dropped, whoever has the majority.
                for name in self.sides:
                    if name != side.name and name not in side.links:
                        self.channels[side.name, name].clear()
                side.rounds.tick(self.now)
        self._note_forgotten()
        for side in self.sides.values():
            side.settings.forget_s = 0.0

    def _apart(self, away: Side) -> None:
        """A node is cut off or down while the others go on, and collect; then it is back."""
        self.note(f"{away.name} is away")
        if away.up and self.random.random() < 0.5:
            away.crash()
        for name in list(away.links):
            self.cut(away.name, name)
        for one, two in itertools.combinations([n for n in self.sides if n != away.name], 2):
            self.link(one, two)
        for number in range(self.random.randrange(2, 7)):
            for _ in range(3):
                self._step("change")
            self._flow()
            if number == 1 and self.forgets and self.random.random() < 0.7:
                self._absence()
            self._turn()
            self.check()
        if not away.up:
            away.start()
        for name in self.sides:
            if name != away.name:
                self.link(name, away.name)

    def _note_forgotten(self) -> None:
        for side in self.sides.values():
            if gone := set(side.registry.floors.gone) - self.forgotten:
                self.note(f"{side.name} has forgotten {gone}")
                self.forgotten |= gone

    def _turn(self) -> None:
        """Time for rounds, everywhere."""
        self.now += ROUND_S + self.tombstone_s
        for side in self.sides.values():
            if side.up:
                for member in side.links.values():
                    member.revision = self.sides[member.name].registry.revision
                side.rounds.tick(self.now)
                side.registry.collect(self.now)
        self._note_forgotten()

    def link(self, one: str, two: str) -> None:
        a, b = self.sides[one], self.sides[two]
        if not a.up or not b.up or two in a.links or {one, two} == self.blocked:
            return
        self.note(f"{one} and {two} are linked")
        for side, name in ((a, two), (b, one)):
            side.links[name] = Peer(name)
        for side, name in ((a, two), (b, one)):
            side.rounds.linked(side.links[name])

    def cut(self, one: str, two: str) -> None:
        a, b = self.sides[one], self.sides[two]
        if two not in a.links:
            return
        self.note(f"{one} and {two} are cut")
        for side, name in ((a, two), (b, one)):
            self.frames[side.name, name].clear()
            side.rounds.unlinked(side.links.pop(name))
            for each in self.channels[side.name, name]:
                each[2] = False  # it comes again
                if each[1] is not None:
                    each[1].remote -= 1
                    each[1] = None

    def deliver(self, sender: str, receiver: str) -> None:
        """A frame, or a change set of the channel: they have no order between them."""
        side = self.sides[receiver]
        if sender not in side.links:
            return
        frames, channel = self.frames[sender, receiver], self.channels[sender, receiver]
        due = next((each for each in channel if not each[2]), None)
        if due is not None and (not frames or self.random.random() < 0.3):
            due[2] = True
            side.registry.take_change(due[0])
        elif channel and channel[0][2] and self.random.random() < 0.3:
            side.commit()  # it confirms
            tracker = channel.popleft()[1]
            if tracker is not None:
                tracker.remote -= 1
        elif frames:
            kind, body = frames.popleft()
            self.counts[str(kind)] = self.counts.get(str(kind), 0) + 1
            side.rounds.handlers()[kind](side.links[sender], body)

    # What must be true

    def changed(self, side: Side, values: dict[str, str | None], version: int) -> None:
        for key, value in values.items():
            self.versions.setdefault(key, {})[version] = value or ""

    def acknowledged(self, side: Side, values: dict[str, str | None], version: int) -> None:
        self.note(f"{side.name} acknowledges {values}")
        for key in values:
            stored = [each for each in self.sides.values() if each.knew.get(key, 0) >= version]
            if stored:  # else it may be lost with the memory that has it
                self.safe.setdefault(key, {})[version] = side.name
            side.serves_at_least[key] = max(side.serves_at_least.get(key, 0), version)

    def _deleted_since(self, key: str, version: int) -> bool:
        return any(
            later >= version and not value for later, value in self.versions.get(key, {}).items()
        )

    def check(self) -> None:
        """At any time."""
        self._note_forgotten()
        for side in self.sides.values():
            if not side.up:
                continue
            if "+" in side.registry.floors.lineage:
                self.merged = True
                if self.one_lineage:
                    self.wrong.append(f"{side.name} has lineage {side.registry.floors.lineage}")
            floor = side.registry.floors.floor
            if floor < side.floor and self.forgets == "word":
                self.merged = True
            side.floor = floor
            table = side.table()
            self._check_collected(side, table)
            for key, version in side.knew.items():
                found = table.get(key)
                if found is not None and found[0] < version and not self.merged:
                    self.wrong.append(f"{side.name}: {key} is back, {found[0]} < {version}")
            if side.name in self.forgotten or (self.merged and self.forgets) or self.volatile:
                continue
            for key, version in side.serves_at_least.items():
                found = table.get(key)
                if found is None:
                    if not self._deleted_since(key, version):
                        self.wrong.append(f"{side.name}: {key} is gone, which it acknowledged")
                elif found[0] < version and (self.versions[key][version] or not self.merged):
                    self.wrong.append(f"{side.name}: {key} is older than acknowledged")

    def _check_collected(self, side: Side, table: dict[str, tuple[int, str]]) -> None:
        """What was a tombstone the last time, and is nothing now."""
        now = {topic[len(PREFIX) :]: m.hlc for topic, m in side.registry.tombstones.items()}
        for key, version in side.tombstones.items():
            if key in now or key in table or self.forgets or self.merged:
                continue
            for name in side.registry.floors.nodes:
                other = self.sides[name]
                if other.keeps and other.knew.get(key, 0) < version:
                    self.wrong.append(f"{side.name} collects {key}, which {name} has not deleted")
        side.tombstones = now

    def settle(self) -> list[str]:
        """Nothing more goes wrong: all come together."""
        if self.wrong:
            return self.wrong
        self.note("nothing more goes wrong")
        self.blocked = set()
        for side in self.sides.values():
            if not side.up:
                side.start()
        for one, two in itertools.combinations(self.sides, 2):
            self.link(one, two)
        for _ in range(8):
            self._flow()
            self._turn()
        self._flow()
        self.check()
        return self.wrong or self._check_end()

    def _flow(self) -> None:
        for _ in range(10_000):
            for sender, receiver in self.frames:
                self.deliver(sender, receiver)
            up = [side for side in self.sides.values() if side.up]
            for side in up:
                side.commit()
                side.acknowledge()
                if not self.random.randrange(50):
                    side.rounds.tick(self.now)
            for _ in range(2):
                linked = [(side.name, name) for side in up for name in side.links]
                if any(self.frames[pair] or self.channels[pair] for pair in linked):
                    break
                for side in up:
                    side.rounds.tick(self.now)
            else:
                return
        self.wrong.append("it does not come to rest")

    def _check_end(self) -> list[str]:
        sides = list(self.sides.values())
        tables = [side.table() for side in sides]
        if any(table != tables[0] for table in tables):
            self.wrong.append(f"the tables differ: {tables}")
        if len({side.registry.revision for side in sides}) > 1:
            self.wrong.append(f"revisions: {[side.registry.revision for side in sides]}")
        left = [side.name for side in sides if side.registry.tombstones]
        if left:
            self.wrong.append(f"tombstones are left at {left}")
        for key, safe in self.safe.items():
            for version, name in safe.items():
                found = tables[0].get(key)
                if self.versions[key][version] == "":
                    if found is not None and found[0] < version and not self.merged:
                        self.wrong.append(f"{key} is back: {found[0]} < {version}")
                elif name not in self.forgotten and not (self.merged and self.forgets):
                    if found is None and not self._deleted_since(key, version):
                        self.wrong.append(f"{key} of {name} is lost")
                    elif found is not None and found[0] < version:
                        self.wrong.append(f"{key} of {name} is lost: {found[0]} < {version}")
        return self.wrong
