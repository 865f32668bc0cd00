"""The user of the first start: when it is made, and what of it counts in a cluster."""

import json

from mhub.admin import first_user
from mhub.admin.first_user import MARK, MOST_VERSION
from tests.access.facade import Told
from tests.admin.world import AdminCase


class FirstUserTests(AdminCase):
    def make(self) -> str:
        """What the console shows; "": nothing was made."""
        shown: list[str] = []
        if first_user.is_wanted(self.hub, self.access):
            self.do(first_user.make(self.hub, self.access, "http://127.0.0.1:8088", shown.append))
        return "".join(shown)

    def password(self, shown: str) -> str:
        return shown.split("Password")[1].split()[0]

    def test_once(self) -> None:
        shown = self.make()
        self.assertEqual(self.log_in("admin", self.password(shown)).status, 200)
        self.assertEqual(self.ask("GET", "/admin/v1/users").status, 200)
        self.assertEqual(self.make(), "")

    def test_it_is_told_of_as_any_other_user(self) -> None:
        told = Told()
        self.hub.events.sinks.append(told)
        shown = self.make()
        text = 'name "admin", values roles note'
        self.assertEqual(len(told.events), 1)
        self.assertEqual(told.last(), ("mhub", "users.add", text, "first start", "done"))
        self.assertNotIn(self.password(shown), str(told.last()))

    def test_not_where_there_is_an_administrator(self) -> None:
        self.user("root", "admin")
        self.assertEqual(self.make(), "")

    def test_not_again_after_it_was_deleted(self) -> None:
        self.make()
        self.do(self.access.users.delete("admin"))
        self.assertEqual(self.make(), "")

    def test_its_password_can_be_changed(self) -> None:
        self.make()
        self.do(self.access.users.passwd("admin", "another password"))
        self.assertEqual(self.log_in("admin", "another password").status, 200)

    def test_what_another_node_has_counts(self) -> None:
        """Of a node that could not reach the others when it was started first."""
        shown = self.make()
        known = self.hub.registry.get("user/admin")
        assert known is not None
        self.assertLessEqual(known.hlc, MOST_VERSION)
        theirs = {**json.loads(known.value), "note": "theirs", "password": ""}
        self.hub.registry.take([("user/admin", MOST_VERSION + 1, json.dumps(theirs))])
        self.assertEqual(self.log_in("admin", self.password(shown)).status, 401)
        # And the other way round: ours does not take the place of theirs.
        self.hub.registry.take([("user/admin", known.hlc, known.value)])
        found = self.hub.registry.get("user/admin")
        assert found is not None
        self.assertEqual(json.loads(found.value)["note"], "theirs")
        self.assertIsNotNone(self.hub.registry.get(MARK))

    def test_in_a_cluster_that_has_forgotten_what_is_so_old(self) -> None:
        self.hub.registry.floors.floor = MOST_VERSION + 1
        shown = self.make()
        self.assertEqual(self.log_in("admin", self.password(shown)).status, 200)
        self.assertEqual(self.make(), "")

    def test_without_a_console(self) -> None:
        self.do(first_user.make(self.hub, self.access, "http://127.0.0.1:8088", None))
        self.assertEqual(self.log_in("admin", "").status, 401)
        self.assertEqual(self.make(), "")
