"""The index as the broker's authorizer: the default policy, roles, denies, as clients meet them."""

from pathlib import Path
from unittest import TestCase

from mhub.access import index as index_module
from mhub.access.policy import load_csv
from mhub.access.rows import parse_row
from mhub.core.authentication import Claim, Later, Step, success
from mhub.core.events import DENIED
from mhub.core.principal import Identity
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p

DEFAULT = Path(index_module.__file__).parent / "policies" / "default.csv"
NO = reasons.NOT_AUTHORIZED


class Roles:
    """User names are believed; what stands behind a + are the roles."""

    def authenticate(self, claim: Claim) -> Step | Later:
        name, *roles = (claim.username or "").split("+")
        identity = Identity(name, "test")
        identity.roles = tuple(roles)
        return success(identity)


class GateCase(TestCase):
    def setUp(self) -> None:
        self.world = World(sys_interval_s=10.0)
        self.world.hub.admission.authenticator = Roles()
        self.index = load_csv(DEFAULT).index()
        self.world.hub.authorize_with(self.index)

    def add(self, *lines: str) -> None:
        rows = [parse_row([field.strip() for field in line.split(",")], "") for line in lines]
        self.index.apply(rows, [])
        self.world.hub.rights_changed()
        self.world.settle()

    def client(self, username: str, client_id: str, version: int = 5) -> Client:
        return self.world.client(client_id, version, username=username)

    def codes(self, client: Client, *filters: str) -> list[int]:
        return [client.subscribe(each).reasons[0] for each in filters]

    def publish(self, client: Client, topic: str) -> int:
        client.publish(topic, b"x", 1)
        reason = client.next("PUBACK").reason
        assert reason is not None
        return reason


class DefaultPolicyTests(GateCase):
    WIDE = ("#", "+/#", "+", "$SYS/#", "$SYS/broker/uptime", "$share/g/#", "$share/g/$SYS/#")

    def test_nobody_may_listen_to_everything_who_was_not_granted_it(self) -> None:
        for username in ("alice", "alice+device", "alice+reader", "alice+operator"):
            client = self.client(username, "c")
            self.assertEqual(self.codes(client, *self.WIDE), [NO] * len(self.WIDE), username)

    def test_anonymous_clients_may_not_even_connect(self) -> None:
        client = self.world.open(5)
        client.send(p.connect("c", 5))
        self.assertEqual(client.next("CONNACK").reason, NO)

    def test_devices_have_their_own_topics(self) -> None:
        device = self.client("d1+device", "c")
        self.assertLess(self.publish(device, "devices/d1/x"), 0x80)
        self.assertEqual(self.publish(device, "devices/d2/x"), NO)
        self.assertEqual(self.publish(device, "devices/d1/commands/x"), NO)
        self.assertEqual(self.codes(device, "devices/d1/#", "devices/+/#"), [0, NO])

    def test_who_may_not_read_sys_gets_nothing_of_it_by_other_ways(self) -> None:
        self.add("p, role:reader, *, subscribe, #, any, allow")
        reader = self.client("r+reader", "c")
        self.assertEqual(self.codes(reader, "#"), [0])
        self.world.wait(11)
        self.assertEqual(reader.take(), [])


class AdministratorTests(GateCase):
    """A role with #, explainable like any other: nothing bypasses a deny."""

    def test_everything_is_allowed(self) -> None:
        admin = self.client("root+admin", "c")
        self.assertLess(self.publish(admin, "any/thing"), 0x80)
        self.assertEqual(self.codes(admin, "#", "$SYS/#"), [0, 0])

    def test_but_for_what_is_denied(self) -> None:
        admin = self.client("root+admin", "c")
        self.add("p, role:admin, *, publish, vault/#, any, deny")
        self.assertEqual(self.publish(admin, "vault/1"), NO)
        self.add("p, user:root, *, subscribe|receive, vault/#, any, deny")
        self.assertEqual(self.codes(admin, "vault/1", "#"), [NO, NO])
        denied = self.world.diary.of(DENIED)
        self.assertEqual({event.rule for event in denied} - {*self.index.rows}, set())

    def test_not_even_the_topics_of_the_broker_itself(self) -> None:
        self.assertEqual(self.publish(self.client("root+admin", "c"), "$SYS/broker/x"), NO)


class ReceiveModeTests(GateCase):
    def test_what_may_be_read_of_everything(self) -> None:
        self.index.strict = False
        self.add(
            "p, role:reader, *, subscribe|receive, open/#, any, allow",
            "p, role:reader, *, receive, devices/#, any, deny",
        )
        reader, admin = self.client("r+reader", "c"), self.client("root+admin", "w")
        self.assertEqual(self.codes(reader, "#"), [0])
        for topic in ("open/1", "closed/1", "devices/1"):
            admin.publish(topic, topic.encode())
        self.assertEqual(reader.payloads(), [b"open/1"])
        self.add("p, user:r, *, receive, open/1, any, deny")
        admin.publish("open/1", b"again")
        admin.publish("open/2", b"2")
        self.assertEqual(reader.payloads(), [b"2"])
