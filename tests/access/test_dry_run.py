"""Changes of rules that are only tried: what they would do, and to whom."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.access import Access
from mhub.access.entries import Role, User, write
from mhub.access.results import DryRun
from mhub.access.service import AccessService
from mhub.config.access import AccessSettings
from mhub.operations.contract import BadArgument, LimitReached, NotThere
from tests.access.facade import QuickSecrets
from tests.access.test_service import Names
from tests.core.world import World

CONNECT = ["p", "role:everyone", "*", "connect", "#", "any", "allow"]
READER = ["p", "role:reader", "*", "subscribe|receive", "plant/#", "any", "allow"]
DEVICE = ["p", "role:device", "*", "publish", "plant/%u/state", "any", "allow"]


class TrialCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.hub = self.world.hub
        self.hub.admission.authenticator = Names(self.hub.registry)
        self.pauses = 0
        self.waiting: list[Deferred[None]] | None = None
        self.time = 0.0
        self.service = self.make(AccessSettings())
        self.access = Access(
            self.hub.registry,
            self.service,
            QuickSecrets(),
            self.clock,
            lambda: 1_800_000_000.0,
            self.world.turn,
            self.hub.events,
            self.pause,
        )
        self.do(self.access.rules.change(add=[CONNECT, READER, DEVICE], replace_all=True))
        self.put(**{"user/ann": User(roles=("reader",)), "user/pump": User(roles=("device",))})

    def make(self, settings: AccessSettings | None) -> AccessService:
        service = AccessService(settings, self.hub, Clock(), self.world.turn, True)
        service.start()
        return service

    def clock(self) -> float:
        self.time += 0.0005  # each look takes half a millisecond
        return self.time

    def pause(self) -> Deferred[None]:
        self.pauses += 1
        done: Deferred[None] = Deferred()
        if self.waiting is None:
            done.callback(None)
        else:
            self.waiting.append(done)
        return done

    def put(self, **entries: Any) -> None:
        values: dict[str, str | None] = {key: write(value) for key, value in entries.items()}
        self.hub.registry.change(values, self.world.now)

    def do(self, call: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(call))

    def dry_run(self, **change: Any) -> DryRun:
        before = self.hub.registry.revision
        found = self.do(self.access.rules_dry_run(**change))
        self.assertEqual(self.hub.registry.revision, before)
        return found


def told(run: DryRun) -> dict[str, list[str]]:
    """By whom: what is gained and lost, with an example."""
    return {
        "; ".join(each.who): [
            *(f"+{right.action} {right.topics} {right.example}" for right in each.gained),
            *(f"-{right.action} {right.topics} {right.example}" for right in each.lost),
        ]
        for each in run.people
    }


class DryRunTests(TrialCase):
    def test_what_is_gained(self) -> None:
        row = ["p", "role:device", "*", "publish", "alarms/#", "any", "allow"]
        run = self.dry_run(add=[row])
        self.assertEqual(told(run), {"role:device": ["+publish alarms/# alarms/any"]})
        self.assertEqual(run.people[0].users, 1)
        self.assertEqual((run.added, run.removed), ((", ".join(row),), ()))
        self.assertEqual(run.clients, ())

    def test_a_role_is_given(self) -> None:
        run = self.dry_run(csv="g, role:device, role:reader, *\n# a comment\n")
        self.assertEqual(
            told(run)["role:device"], ["+subscribe plant/# plant/any", "+receive plant/# plant/any"]
        )

    def test_what_is_lost_with_the_clients_that_lose_it(self) -> None:
        ann = self.world.client("c1", username="ann")
        self.assertEqual(ann.subscribe("plant/1/#").reasons, [0])
        self.assertEqual(ann.subscribe("plant/2").reasons, [0])
        self.world.client("c2", username="ann")
        rule = next(r for r in self.access.rules.page().rules if r.row[1] == "role:reader")
        run = self.dry_run(remove=[rule.id])
        self.assertEqual(
            told(run),
            {"role:reader": ["-subscribe plant/# plant/any", "-receive plant/# plant/any"]},
        )
        self.assertEqual([c.client_id for c in run.clients], ["c1"])
        self.assertEqual(set(run.clients[0].filters), {"plant/1/#", "plant/2"})

    def test_a_user_that_a_rule_names_and_a_set_of_roles(self) -> None:
        self.put(**{"user/both": User(roles=("device", "reader"))})
        row = ["p", "user:ann", "*", "publish", "x", "any", "allow"]
        self.assertEqual(told(self.dry_run(add=[row])), {"user:ann": ["+publish x x"]})
        row = ["p", "role:reader", "*", "publish", "plant/%u/state", "any", "allow"]
        self.assertEqual(
            told(self.dry_run(add=[row])),
            {"role:reader": ["+publish plant/%u/state plant/%u/state"]},
        )

    def test_replacing_all(self) -> None:
        run = self.dry_run(csv=f"{', '.join(CONNECT)}\n{', '.join(READER)}\n", replace_all=True)
        self.assertEqual(run.unchanged, 2)
        self.assertEqual(len(run.removed), 1)
        self.assertEqual(told(run), {"role:device": ["-publish plant/%u/state plant/%u/state"]})

    def test_the_admin_side(self) -> None:
        row = ["p", "role:reader", "*", "admin:read", "clinets", "any", "allow"]
        run = self.dry_run(add=[row])
        self.assertEqual(told(run), {"role:reader": ["+admin:read clinets clinets"]})
        self.assertIn("did you mean 'clients'", run.notes[0])

    def test_tenants(self) -> None:
        row = ["p", "role:reader", "acme", "publish", "x", "any", "allow"]
        self.assertEqual(
            told(self.dry_run(add=[row])), {"role:reader in tenant acme": ["+publish x x"]}
        )

    def test_what_is_shown_has_a_bound(self) -> None:
        rows = [
            ["p", f"role:r{role}", "*", "publish", f"t{n}", "any", "allow"]
            for role in range(60)
            for n in range(role, role + 30)
        ]
        run = self.dry_run(add=rows)
        self.assertEqual((len(run.added), run.more_added), (100, 1700))
        self.assertEqual((len(run.people), run.more_people), (50, 10))
        self.assertEqual((len(run.people[0].gained), run.people[0].more), (20, 10))

    def test_it_pauses_and_a_change_meanwhile_makes_no_difference(self) -> None:
        for number in range(300):
            self.put(**{f"user/u{number}": User(roles=("device",))})
        self.waiting = []
        row = ["p", "role:device", "*", "publish", "alarms/#", "any", "allow"]
        running = Deferred.fromCoroutine(self.access.rules_dry_run(add=[row]))
        while not running.called:
            self.put(**{"role/other": Role(note=str(self.pauses))})
            self.waiting.pop().callback(None)
        self.assertGreater(self.pauses, 5)
        run = self.successResultOf(running)
        self.assertEqual(run.people[0].users, 301)

    def test_few_at_a_time(self) -> None:
        self.waiting = []
        for number in range(100):
            self.put(**{f"user/u{number}": User(roles=("device",))})
        running = [Deferred.fromCoroutine(self.access.rules_dry_run(add=[])) for _ in range(2)]
        self.failureResultOf(
            Deferred.fromCoroutine(self.access.rules_dry_run(add=[])), LimitReached
        )
        while self.waiting:
            self.waiting.pop().callback(None)
        for each in running:
            self.successResultOf(each)
        self.waiting = None
        self.dry_run()

    def test_what_is_refused(self) -> None:
        for change, kind in (
            ({"remove": ["nothing"]}, NotThere),
            ({"csv": "p, nonsense\n"}, BadArgument),
            ({"add": [["g", "role:a", "role:a", "*"]]}, BadArgument),
        ):
            call = self.access.rules_dry_run(**change)
            self.failureResultOf(Deferred.fromCoroutine(call), kind)


class TextTests(TrialCase):
    def text(self) -> str:
        async def collect() -> str:
            return "".join([piece async for piece in self.access.rules.export()])

        return str(self.do(collect()))

    def test_what_is_exported_can_be_imported(self) -> None:
        text = self.text()
        self.assertIn("g, user:ann, role:reader, *\n", text)
        self.assertIn(", ".join(DEVICE), text)
        done = self.do(self.access.rules.bring(text, replace_all=True))
        self.assertEqual((done.added, done.removed, done.unchanged), ((), (), 5))

    def test_lines_that_are_wrong_are_named(self) -> None:
        text = f"{', '.join(CONNECT)}\np, x\n\n" + "p\n" * 9
        failure = self.failureResultOf(
            Deferred.fromCoroutine(self.access.rules.bring(text)), BadArgument
        )
        self.assertIn("line:2: 2 fields", str(failure.value))
        self.assertIn("and 5 more", str(failure.value))


class ProposalTests(TrialCase):
    def propose(self, *args: Any, **kwargs: Any) -> list[tuple[str, bool]]:
        found = self.do(self.access.propose(*args, **kwargs))
        return [
            (", ".join(each.add[0]) if each.add else f"remove {len(each.remove)}", each.allows)
            for each in found.proposals
        ]

    def test_for_the_user_and_for_its_roles(self) -> None:
        self.assertEqual(
            self.propose("publish", "plant/pump/alarm", user="pump", client="p1"),
            [
                ("p, user:pump, *, publish, plant/pump/alarm, any, allow", True),
                ("p, role:device, *, publish, plant/%u/alarm, any, allow", True),
            ],
        )
        self.assertEqual(
            self.propose("subscribe", "plant/p1/#", user="pump", client="p1")[1],
            ("p, role:device, *, subscribe|receive, plant/%c/#, any, allow", True),
        )

    def test_without_a_user(self) -> None:
        self.assertEqual(
            self.propose("publish", "a/c,1", client="c,1", anonymous=True),
            [("p, role:anonymous, *, publish, a/%c, any, allow", True)],
        )

    def test_what_is_allowed_needs_none(self) -> None:
        found = self.do(self.access.propose("publish", "plant/pump/state", user="pump"))
        self.assertTrue(found.allowed)
        self.assertEqual(found.proposals, ())

    def test_what_a_rule_denies(self) -> None:
        deny = ["p", "role:everyone", "*", "publish", "plant/#", "any", "deny"]
        self.do(self.access.rules.change(add=[deny]))
        self.assertEqual(
            self.propose("publish", "plant/pump/state", user="pump"), [("remove 1", True)]
        )

    def test_a_resource(self) -> None:
        self.assertEqual(
            self.propose("admin:read", "clients", user="ann"),
            [
                ("p, user:ann, *, admin:read, clients, any, allow", True),
                ("p, role:reader, *, admin:read, clients, any, allow", True),
            ],
        )

    def test_names_with_what_rows_cannot_have(self) -> None:
        self.assertEqual(
            self.propose("publish", "a (1)/50%", user="x,y", client="c")[0],
            ("p, user:x%2Cy, *, publish, a %281%29/50%%, any, allow", True),
        )
