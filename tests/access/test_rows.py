"""What a row of a policy may be, and how each refusal says why."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.rows import (
    BITS_OF,
    Row,
    RowError,
    bit_of,
    field_problem,
    parse_grant,
    parse_pattern,
    parse_row,
    quote,
    unquote,
)
from tests.helpers.splits import steady

RULE = ["p", "role:r", "*", "publish", "a/b", "any", "allow"]
GIVEN = ["g", "user:u", "role:r", "*"]


def rule(**fields: str) -> Row:
    names = ("kind", "subject", "tenant", "action", "topic", "condition", "effect")
    return parse_row([fields.get(name, RULE[n]) for n, name in enumerate(names)], "f:1")


class RefusedTests(SynchronousTestCase):
    def refused(self, fields: list[str]) -> str:
        error = self.assertRaises(RowError, parse_row, fields, "policy.csv:7")
        self.assertEqual(error.place, "policy.csv:7")
        self.assertEqual(str(error), f"policy.csv:7: {error.text}")
        return error.text

    def with_field(self, number: int, value: str, row: list[str] = RULE) -> str:
        return self.refused([*row[:number], value, *row[number + 1 :]])

    def test_kind_and_length(self) -> None:
        self.assertIn("p or g", self.refused([]))
        self.assertIn("'P'", self.with_field(0, "P"))
        self.assertIn("'p2'", self.with_field(0, "p2"))
        self.assertIn("6 fields, 7 are needed", self.refused(RULE[:-1]))
        self.assertIn("8 fields", self.refused([*RULE, "x"]))
        self.assertIn("5 fields, 4 are needed", self.refused([*GIVEN, "x"]))
        self.assertIn("3 fields", self.refused(GIVEN[:-1]))

    def test_subjects_and_roles(self) -> None:
        for subject in ("alice", "group:x", "self", "User:x"):
            self.assertIn("user:NAME or role:NAME", self.with_field(1, subject))
        self.assertIn("without a name", self.with_field(1, "user:"))
        self.assertIn("only roles can be given", self.with_field(2, "user:x", GIVEN))
        self.assertIn("can be given to nobody", self.with_field(2, "role:authenticated", GIVEN))
        self.assertIn("to itself", self.refused(["g", "role:r", "role:r", "*"]))

    def test_effect_and_action(self) -> None:
        for effect in ("Deny", "dney", "allowed", "ALLOW"):
            self.assertIn("allow or deny", self.with_field(6, effect))
        for action in ("write", "publish|", "publish|write", "publish | receive", "**"):
            self.assertIn("an action is one of", self.with_field(3, action))
        self.assertIn("twice", self.with_field(3, "publish|publish"))

    def test_conditions(self) -> None:
        for condition in ("qos=3", "qos>=1", "qos<1", "any&qos=1", "retain=1", "all", "qos = 1"):
            self.assertIn("a condition is", self.with_field(5, condition))
        self.assertIn("holds for no message", self.with_field(5, "qos=0&qos=1"))

    def test_conditions_that_the_broker_could_not_keep(self) -> None:
        for action in ("receive", "connect", "subscribe|receive", "*"):
            text = self.refused([*RULE[:3], action, "a", "qos<=1", "allow"])
            self.assertIn("cannot hold for", text)
        text = self.refused([*RULE[:3], "subscribe", "a", "retain=no", "deny"])
        self.assertIn("no retain flag", text)

    def test_topics(self) -> None:
        for topic in ("a/#/b", "a#", "a/b+", "+a"):
            self.assertIn("must", self.with_field(4, topic))
        self.assertIn("$share", self.with_field(4, "$share/g/a"))
        self.assertIn("levels", self.with_field(4, "/".join("a" * 201)))
        for topic in ("%x", "a/%", "%{", "%{}", "%{a%u}", "%2", "%41", "%2c"):
            self.assertIn("%", self.with_field(4, topic))

    def test_what_pycasbin_would_read_differently(self) -> None:
        self.assertIn("empty", self.with_field(4, ""))
        for char in '()[],"':
            self.assertIn(f"write %{ord(char):02X}", self.with_field(4, f"a{char}b"))
            self.assertIn(f"write %{ord(char):02X}", self.with_field(1, f"user:{char}"))
        for text in (" a", "a ", "\ta", "a\u2003"):
            self.assertTrue(self.with_field(4, text))
        for text in ("a\nb", "a\x00b", "a\x1fb", "a\u2028b", "a\ud800"):
            self.assertTrue(self.with_field(4, text))

    def test_names_with_one_spelling(self) -> None:
        for name in ("a%b", "a%", "a%2", "a%zz"):
            self.assertIn("%25", self.with_field(1, f"user:{name}"))
        self.assertIn("'a%2C'", self.with_field(1, "user:a%2c"))
        self.assertIn("'a'", self.with_field(1, "user:%61"))
        self.assertIn("UTF-8", self.with_field(1, "user:%FF"))
        self.assertIn("%25", self.with_field(2, "t%"))


class AnyTextTests(SynchronousTestCase):
    """Whatever stands in a row, it is taken or refused: nothing else happens."""

    fields = st.one_of(
        st.text(max_size=8),
        st.text("%uct{}cn+#/$2C0() ,|&=<", max_size=10),
        st.sampled_from((*RULE, *GIVEN, "qos<=1", "user:%", "*", "a/%{x}/#", "\ud800")),
    )

    @given(st.sampled_from("pg"), st.lists(fields, min_size=3, max_size=6))
    @steady
    def test_rows(self, kind: str, fields: list[str]) -> None:
        try:
            row = parse_row([kind, *fields], "f:1")
        except RowError as error:
            self.assertEqual(error.place, "f:1")
        else:
            self.assertEqual(list(row.fields), [kind, *fields])
            self.assertEqual(parse_row(row.text().split(", ")).id, row.id)

    @given(fields)
    @steady
    def test_patterns(self, text: str) -> None:
        try:
            levels = parse_pattern(text)
        except RowError:
            return
        self.assertEqual(len(levels), text.count("/") + 1)

    @given(st.text(max_size=20))
    @steady
    def test_grants(self, line: str) -> None:
        self.assertRaises(RowError, parse_grant, line)


class MeaningTests(SynchronousTestCase):
    def test_masks(self) -> None:
        self.assertEqual(rule(action="*").mask, (1 << 11) - 1)
        self.assertEqual(
            rule(action="subscribe|receive").mask, BITS_OF["subscribe"] | BITS_OF["receive"]
        )
        held = {
            condition: [
                (qos, retain)
                for qos in range(3)
                for retain in (False, True)
                if rule(condition=condition).mask & bit_of("publish", qos, retain)
            ]
            for condition in ("qos=1", "qos<=1", "retain=yes", "qos<=1&retain=no")
        }
        self.assertEqual(held["qos=1"], [(1, False), (1, True)])
        self.assertEqual(held["qos<=1"], [(0, False), (0, True), (1, False), (1, True)])
        self.assertEqual(held["retain=yes"], [(0, True), (1, True), (2, True)])
        self.assertEqual(held["qos<=1&retain=no"], [(0, False), (1, False)])

    def test_a_condition_of_two_actions(self) -> None:
        row = rule(action="publish|subscribe", condition="qos<=1")
        for qos in range(3):
            for action in ("publish", "will", "subscribe"):
                self.assertEqual(bool(row.mask & bit_of(action, qos, True)), qos <= 1)

    def test_each_question_has_a_bit_of_its_own(self) -> None:
        bits = {bit_of("publish", q, r) for q in range(3) for r in (False, True)}
        bits |= {bit_of("subscribe", q, False) for q in range(3)}
        bits |= {bit_of("receive", 0, False), bit_of("connect", 0, False)}
        bits |= {bit_of("admin:read", 0, False), bit_of("admin:write", 0, False)}
        self.assertEqual(sum(bits), (1 << 13) - 1)
        self.assertRaises(ValueError, bit_of, "write", 0, False)

    def test_admin_actions(self) -> None:
        row = rule(action="admin:read|admin:write", topic="clients")
        self.assertEqual(row.mask, 0b11 << 11)
        self.assertFalse(rule(action="*").mask & row.mask)
        for wrong, why in (
            ({"action": "admin:read", "topic": "x/%u"}, "placeholders"),
            ({"action": "admin:read", "condition": "qos=0"}, "no message"),
            ({"action": "admin:read|publish"}, "a row for each"),
            ({"action": "publish|admin:read"}, "a row for each"),
            ({"action": "*|admin:read"}, "an action is one of"),
            ({"action": "admin:read|admin:read"}, "twice"),
            ({"action": "admin:*"}, "an action is one of"),
        ):
            with self.assertRaises(RowError) as caught:
                rule(**wrong)
            self.assertIn(why, str(caught.exception))

    def test_levels_of_topics(self) -> None:
        levels = parse_pattern("a/+/%u/x-%{site}%%/%2C%20%28/#")
        self.assertEqual([level.kind for level in levels], [0, 1, 3, 3, 0, 2])
        self.assertEqual(levels[4].text, ", (")
        self.assertEqual([part.text for part in levels[3].parts], ["x-", "site", "%"])

    def test_the_id_is_stable_and_of_the_fields_alone(self) -> None:
        self.assertEqual(parse_row(RULE, "here").id, parse_row(RULE, "there").id)
        self.assertEqual(parse_row(RULE).id, "88c3909f7fbe")
        self.assertNotEqual(rule(effect="deny").id, rule().id)

    def test_grants(self) -> None:
        row = parse_grant("publish, a/%c, qos=0, deny", "grant 1")
        self.assertEqual((row.subject, row.tenant, row.allows), ("self", "*", False))
        for line in (
            "",
            "publish, a, any",
            "p, role:r, *, publish, a, any, allow",
            'publish, "a", any, allow',
        ):
            self.assertRaises(RowError, parse_grant, line)


class NameTests(SynchronousTestCase):
    @given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
    @steady
    def test_any_name_can_be_written_and_is_read_back(self, name: str) -> None:
        text = quote(name)
        self.assertEqual(unquote(text), name)
        self.assertEqual(field_problem(f"user:{text}"), "")
        self.assertEqual(field_problem(text), "")
        parse_row(["g", f"user:{text}", f"role:{quote('x' + name)}", text])

    def test_names_of_all_days_are_written_as_they_are(self) -> None:
        for name in ("alice", "a.b@example.com", "CN=x/O=y", "Jörg Müller", "00:1f:aa", "*"):
            self.assertEqual(quote(name), name)
        self.assertEqual(quote("CN=a,O=b"), "CN=a%2CO=b")
        self.assertEqual(quote(" a "), "%20a%20")
