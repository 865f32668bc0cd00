"""A policy as a whole; its CSV form; and what PyCasbin does, on which the refusals rest."""

import re
from pathlib import Path

from casbin.persist.adapters import FileAdapter
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.casbin_model import (
    MODEL,
    CsvAdapter,
    RowsAdapter,
    enforce,
    make_enforcer,
)
from mhub.access.policy import (
    MOST_LINKS,
    POLICIES,
    Policy,
    PolicyError,
    default_rows,
    load_csv,
    read_csv,
    write_csv,
)
from mhub.access.resources import RESOURCES
from mhub.access.rows import Row, parse_row
from mhub.core.principal import Principal
from tests.access.strategies import policies
from tests.access.three import Fields, policy_of
from tests.helpers.splits import steady
from tests.packaging.tree import ROOT


def chain(links: int, tenant: str = "*") -> list[Fields]:
    return [("g", f"role:r{n}", f"role:r{n + 1}", tenant) for n in range(links)]


def rule(subject: str) -> Fields:
    return ("p", subject, "*", "publish", "a", "any", "allow")


def errors(rows: list[Fields]) -> list[str]:
    try:
        policy_of(rows)
    except PolicyError as error:
        return [str(one) for one in error.errors]
    return []


class RolesTests(SynchronousTestCase):
    def test_a_cycle_is_refused_and_shown(self) -> None:
        rows = [*chain(3), ("g", "role:r3", "role:r1", "*")]
        self.assertEqual(
            errors(rows),
            ["row 4: roles in a circle: role:r1 -> role:r2 -> role:r3 -> role:r1"],
        )

    def test_a_cycle_by_way_of_a_tenant(self) -> None:
        rows = [("g", "role:a", "role:b", "*"), ("g", "role:b", "role:a", "t1")]
        self.assertEqual(len(errors(rows)), 1)

    def test_links_of_different_tenants_are_no_cycle(self) -> None:
        rows = [("g", "role:a", "role:b", "t2"), ("g", "role:b", "role:a", "t1")]
        self.assertEqual(errors(rows), [])
        halves = [
            *chain(6, "t1"),
            *(("g", f"role:r{n}", f"role:r{n + 1}", "t2") for n in range(6, 12)),
        ]
        self.assertEqual(errors(halves), [])

    def test_chains_as_long_as_pycasbin_follows_them(self) -> None:
        self.assertEqual(errors(chain(MOST_LINKS)), [])
        (error,) = errors(chain(MOST_LINKS + 1))
        self.assertIn("row 10: role:r0 would have role:r10 by 10 links", error)
        self.assertIn("role:r0 -> role:r1 ->", error)
        self.assertIn("t1", str(chain(1, "t1")))
        self.assertEqual(len(errors(chain(MOST_LINKS + 1, "t1"))), 1)

    def test_a_short_cut_makes_a_long_chain_sound(self) -> None:
        """PyCasbin counts the shortest way."""
        rows = [*chain(MOST_LINKS + 1), ("g", "role:r0", "role:r5", "*"), rule("role:r10")]
        self.assertEqual(errors(rows), [])
        enforcer = make_enforcer(RowsAdapter(policy_of(rows).rows.values()))
        client = Principal("", "")
        client.roles = ("r0",)
        self.assertTrue(enforce(enforcer, client, "publish", "a"))
        self.assertEqual(policy_of(rows).index().publish(client, "a", 0, False), 0)

    def test_what_pycasbin_does_with_long_chains(self) -> None:
        """If this fails, PyCasbin has changed, and MOST_LINKS can."""
        client = Principal("", "")
        client.roles = ("r0",)
        seen = {}
        for links in (MOST_LINKS, MOST_LINKS + 1):
            rows = [parse_row(list(row)) for row in [*chain(links), rule(f"role:r{links}")]]
            seen[links] = enforce(make_enforcer(RowsAdapter(rows)), client, "publish", "a")
        self.assertEqual(seen, {MOST_LINKS: True, MOST_LINKS + 1: False})

    @given(
        st.lists(
            st.builds(
                lambda a, b, tenant: ("g", f"role:{a}", f"role:{b}", tenant),
                st.integers(0, 12),
                st.integers(0, 12),
                st.sampled_from(("*", "*", "t1", "t2")),
            ).filter(lambda row: row[1] != row[2]),
            max_size=24,
            unique=True,
        )
    )
    @steady
    def test_what_is_let_pass_is_seen_alike_by_pycasbin(self, rows: list[Fields]) -> None:
        if errors(rows):
            return
        rows = [*rows, *(rule(f"role:{n}") for n in range(13))]
        policy = policy_of(rows)
        index = policy.index()
        manager = make_enforcer(RowsAdapter(policy.rows.values())).get_role_manager()
        for tenant in ("", "t1", "t2"):
            for start in range(13):
                client = Principal("", "")
                client.tenant = tenant
                client.roles = (str(start),)
                reached = set(index.reach(client).subjects)
                for end in range(13):
                    linked = manager.has_link(f"role:{start}", f"role:{end}", tenant)
                    self.assertEqual(f"role:{end}" in reached, linked)


class WholeTests(SynchronousTestCase):
    def test_warnings(self) -> None:
        rows = [rule("role:r"), ("g", "user:u", "role:x", "*"), rule("role:r")]
        policy = policy_of(rows)
        self.assertEqual(
            [str(warning) for warning in policy.warnings()],
            ["row 3: is the same row as row 1", "row 2: role:x has no rules, and no other role"],
        )
        self.assertEqual(Policy(default_rows()).warnings(), [])

    def test_a_change_is_checked_as_a_whole(self) -> None:
        policy = policy_of(chain(2))
        back = parse_row(["g", "role:r2", "role:r0", "*"], "new")
        self.assertRaises(PolicyError, policy.changed, [back], [])
        changed = policy.changed([back], [next(iter(policy.rows))])
        self.assertEqual(len(changed.rows), 2)
        self.assertEqual(len(policy.rows), 2)
        self.assertRaises(KeyError, policy.changed, [], ["missing"])

    def test_a_short_cut_that_goes_may_leave_a_chain_too_long(self) -> None:
        policy = policy_of([*chain(MOST_LINKS + 1), ("g", "role:r0", "role:r5", "*")])
        (short_cut,) = [row.id for row in policy.rows.values() if row.role == "role:r5"][1:]
        self.assertRaises(PolicyError, policy.changed, [], [short_cut])


class CsvTests(SynchronousTestCase):
    def test_all_refused_lines_are_named(self) -> None:
        text = "# comment\n\np, role:r, *, publish, a, any, allow\np, x\nq, y\n"
        error = self.assertRaises(PolicyError, read_csv, text, "f.csv")
        self.assertEqual([one.place for one in error.errors], ["f.csv:4", "f.csv:5"])
        self.assertIn("(and 1 more)", str(error))

    def test_a_byte_order_mark_is_not_skipped_as_pycasbin_does(self) -> None:
        text = "\ufeffp, role:r, *, publish, a, any, deny"
        self.assertRaises(PolicyError, read_csv, text, "f.csv")

    def test_not_utf_8(self) -> None:
        path = Path(self.mktemp())
        path.write_bytes(b"p, user:\xff, *, publish, a, any, allow")
        self.assertIn("UTF-8", str(self.assertRaises(PolicyError, load_csv, path)))

    @given(policies)
    @steady
    def test_written_and_read_back(self, rows: list[Fields]) -> None:
        policy = policy_of(rows)
        text = write_csv(policy.rows.values())
        self.assertEqual([row.fields for row in read_csv(text, "f")], rows)

    LINES = st.lists(
        st.one_of(
            st.text('pgr:*, ()[]"#\\\t\r\x0b\x1c\u2028\xa0\ufeff%a', max_size=12),
            st.sampled_from(
                (
                    "p, role:r, *, publish, a, any, allow",
                    "p,role:r , *,publish,a b,any,allow",
                    'p, role:r, *, publish, "a", any, allow',
                    "p, role:r, *, publish, a(b, any, allow",
                    "p, role:r, *, publish, (a)[b], any, allow",
                    "p, role:r, *, publish, (a, any, allow), allow",
                    "g, user:u, role:r, *\r",
                    "g, user:u, role:r, *\x1c",
                    "g, user:u, role:r\u2028, *",
                    " # g, user:u, role:r, *",
                    "p2, role:r, *, publish, a, any, allow",
                )
            ),
        )
    )

    @given(LINES, st.sampled_from(("\n", "\r\n", "\r", "\x0b")))
    @steady
    def test_a_file_that_is_taken_is_the_same_to_pycasbin(self, lines: list[str], end: str) -> None:
        text = end.join(lines)
        try:
            rows = read_csv(text, "f.csv")
        except PolicyError:
            return
        path = Path(self.mktemp())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        model = make_enforcer(FileAdapter(str(path))).model.model
        found = [("p", *f) for f in model["p"]["p"].policy] + [
            ("g", *f) for f in model["g"]["g"].policy
        ]
        self.assertEqual(sorted(found), sorted(row.fields for row in rows))


class AdapterTests(SynchronousTestCase):
    def test_a_csv_file_through_casbins_adapter_interface(self) -> None:
        path = Path(self.mktemp())
        path.write_text("p, role:everyone, *, publish, a/%c, any, allow\n")
        enforcer = make_enforcer(CsvAdapter(path))
        client = Principal("", "")
        client.client_id = "c"
        self.assertTrue(enforce(enforcer, client, "publish", "a/c"))
        enforcer.add_policy("role:everyone", "*", "publish", "b", "any", "allow")
        enforcer.save_policy()
        self.assertEqual(len(load_csv(path).rows), 2)
        self.assertTrue(enforce(make_enforcer(CsvAdapter(path)), client, "publish", "b"))

    def test_a_row_that_is_refused_is_not_saved(self) -> None:
        path = Path(self.mktemp())
        before = "p, role:everyone, *, publish, a/%c, any, allow\n"
        path.write_text(before)
        enforcer = make_enforcer(CsvAdapter(path))
        enforcer.add_policy("role:everyone", "*", "publish", "b", "any", "Deny")
        self.assertRaises(ValueError, enforcer.save_policy)
        self.assertEqual(path.read_text(), before)


class ShippedTests(SynchronousTestCase):
    def test_all_policies_that_come_with_mhub_are_sound(self) -> None:
        found = [*POLICIES.glob("*.csv"), *POLICIES.glob("examples/*.csv")]
        self.assertGreaterEqual(len(found), 2)
        for path in found:
            self.assertEqual(load_csv(path).warnings(), [], path)

    def test_the_model_is_the_one_that_the_index_is_made_for(self) -> None:
        model = make_enforcer(RowsAdapter([])).model.model
        self.assertEqual(
            model["e"]["e"].value, "some(where (p_eft == allow)) && !some(where (p_eft == deny))"
        )
        self.assertTrue(MODEL.exists())

    def test_the_rows_in_the_documentation_are_sound(self) -> None:
        text = (ROOT / "docs" / "policy.md").read_text()
        blocks = re.findall(r"```csv\n(.*?)```", text, re.DOTALL)
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            Policy(read_csv(block, "docs/policy.md"))

    def test_the_documentation_has_all_resources(self) -> None:
        text = (ROOT / "docs" / "policy.md").read_text()
        for name, what in RESOURCES.items():
            self.assertIn(f"| `{name}` | {what} |", text)

    def test_the_default_policy_is_short(self) -> None:
        """A reader understands it in a minute."""
        text = (POLICIES / "default.csv").read_text()
        self.assertLess(len(text.splitlines()), 40)
        rows: list[Row] = default_rows()
        self.assertLess(len(rows), 15)
