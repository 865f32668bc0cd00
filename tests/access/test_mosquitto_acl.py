"""Mosquitto's acl_file and password_file become rows and users, or the line is named."""

import itertools
from unittest import TestCase

from hypothesis import given, settings
from hypothesis import strategies as st

from mhub.access.mosquitto_acl import (
    Imported,
    import_acl,
    import_mosquitto,
    import_passwords,
    overlap,
    quote_topic,
)
from mhub.access.policy import Policy, PolicyError
from mhub.access.rows import parse_pattern
from mhub.core.principal import Principal
from mhub.wire.topics import matches
from tests.helpers.splits import steady
from tests.interop.acl_cases import SCENARIOS, Case, Scenario

HASH = "$7$101$c2FsdHNhbHRzYWx0$aGFzaGhhc2g="
OLD_HASH = f"$6$c2FsdA==${'a' * 86}=="


def principal_of(case: Case) -> Principal:
    principal = Principal("192.0.2.1:1", "tcp")
    principal.client_id = case.client_id
    principal.user = case.user
    return principal


def allows(imported: Imported, case: Case) -> bool:
    """As the broker asks: a subscription, and what comes by it."""
    index = Policy(imported.rows).index()
    principal = principal_of(case)
    assert index.connect(principal) == 0
    action, _, topic_filter = case.action.partition(":")
    if case.topic.startswith("$") and action in ("publish", "will"):
        return False  # to which the broker lets nobody publish
    if action == "publish":
        return index.publish(principal, case.topic, 1, False) == 0
    if action == "will":
        return index.will(principal, case.topic, 0, False) == 0
    subscribes = index.subscribe(principal, topic_filter or case.topic, 0, "") == 0
    if action == "subscribe":
        return subscribes
    return subscribes and index.receive(principal, case.topic)


class CaseTests(TestCase):
    def test_the_table(self) -> None:
        """The index decides as the real mosquitto does (`tests.interop.test_mosquitto_acl`)."""
        for scenario in SCENARIOS:
            imported = import_acl(scenario.acl, "acl")
            for case in scenario.cases:
                with self.subTest(scenario=scenario.name, case=case):
                    self.assertEqual(allows(imported, case), case.allowed)

    def test_it_is_long_enough(self) -> None:
        self.assertGreaterEqual(sum(len(scenario.cases) for scenario in SCENARIOS), 150)
        self.assertEqual(len({scenario.name for scenario in SCENARIOS}), len(SCENARIOS))

    def test_both_ways_to_subscribe(self) -> None:
        """A subscription is never refused, as in Mosquitto."""
        imported = import_acl("user a\ntopic read x\n", "acl")
        index = Policy(imported.rows).index()
        principal = principal_of(Case("a", "c", "", "", True))
        for index.strict in (True, False):
            for topic_filter in ("#", "x", "y/+", "$SYS/#"):
                self.assertEqual(index.subscribe(principal, topic_filter, 0, ""), 0)


class AclTests(TestCase):
    def rows(self, text: str) -> list[str]:
        """But for those that everybody has."""
        return [row.text() for row in import_acl(text, "acl").rows[3:]]

    def errors(self, text: str) -> list[str]:
        with self.assertRaises(PolicyError) as caught:
            import_acl(text, "acl")
        return [str(error) for error in caught.exception.errors]

    def test_rows(self) -> None:
        self.assertEqual(
            self.rows("topic read a\nuser alice\ntopic write b\npattern deny %u/%c\n"),
            [
                "p, role:anonymous, *, receive, a, any, allow",
                "p, user:alice, *, publish, b, any, allow",
                "p, role:everyone, *, publish|receive, %u/%c, any, deny",
            ],
        )

    def test_everybody_may_connect_and_subscribe(self) -> None:
        self.assertEqual(
            [row.text() for row in import_acl("", "acl").rows],
            [
                "p, role:everyone, *, connect, #, any, allow",
                "p, role:everyone, *, subscribe, #, any, allow",
                "p, role:everyone, *, subscribe, $SYS/#, any, allow",
            ],
        )

    def test_places(self) -> None:
        row = import_acl("# one\n\nuser a\ntopic x\n", "/etc/acl").rows[-1]
        self.assertEqual(row.place, "/etc/acl:4")

    def test_a_line_that_stands_twice_is_one_row(self) -> None:
        self.assertEqual(len(self.rows("topic read a\ntopic  read a\n")), 1)

    def test_topics_are_written_so_that_they_mean_themselves(self) -> None:
        self.assertEqual(quote_topic("%u/100%", False), "%%u/100%%")
        self.assertEqual(quote_topic("%u/100%", True), "%u/100%%")
        self.assertEqual(quote_topic("%%c/%", True), "%%%c/%%")
        self.assertEqual(quote_topic('a(b)[c],"d"', False), "a%28b%29%5Bc%5D%2C%22d%22")

    def test_names_are_written_so(self) -> None:
        self.assertEqual(
            self.rows("user CN=a,O=b\ntopic x\n"),
            ["p, user:CN=a%2CO=b, *, publish|receive, x, any, allow"],
        )

    def test_what_is_refused(self) -> None:
        for line, text in {
            "user": "user without a name",
            "user   ": "user without a name",
            "topic": "topic without a topic",
            "pattern": "pattern without a topic",
            "topic a b": '"a" is none of read, write',
            "topic READ a": '"READ" is none of read, write',
            "topic a # c": '"a" is none of read, write',
            "TOPIC a": 'expected user, topic or pattern, found "TOPIC"',
            "topc a": 'expected user, topic or pattern, found "topc"',
            "user\talice": "spaces, not tabs",
            "topic\tread\ta": "spaces, not tabs",
            "topic read\ta": "a topic with a tab",
            "topic read a\tb": "a topic with a tab",
            "\t# comment": "spaces, not tabs",
            "  # comment": "a comment begins at the start of a line",
            "topic read a#": "#",
            "topic read #/a": "#",
            "topic read a+": "+",
            "pattern read %u+": "+",
            "topic read a\x01b": "control characters",
        }.items():
            (error,) = self.errors(f"\n{line}\n")
            self.assertTrue(error.startswith("acl:2: "), error)
            self.assertIn(text, error, line)

    def test_all_that_is_wrong(self) -> None:
        found = self.errors("topic\nuser a\ntopic x y\n")
        self.assertEqual([error.split(" ")[0] for error in found], ["acl:1:", "acl:3:"])

    def test_windows_ends_of_lines(self) -> None:
        self.assertEqual(self.rows("topic read a\r\n\r\n"), self.rows("topic read a\n"))

    def test_a_topic_that_looks_like_an_access(self) -> None:
        imported = import_acl("topic deny\n", "acl")
        self.assertIn('acl:1: this is a rule about the topic "deny"', imported.warnings[0])
        self.assertEqual(imported.rows[-1].pattern, "deny")

    def test_topics_of_no_message(self) -> None:
        imported = import_acl("topic read $share/g/a\ntopic read $x/y\n", "acl")
        self.assertEqual(len(imported.rows), 4)
        self.assertEqual(len(imported.warnings), 2)

    def test_slashes_in_names(self) -> None:
        imported = import_acl("pattern read %c/#\npattern read %u/#\n", "acl")
        (warning,) = imported.warnings
        self.assertTrue(warning.startswith("acl:1: a client id or user name with a slash"))


class OrderTests(TestCase):
    """What a section allows is allowed in Mosquitto, though a pattern denies it."""

    def test_a_denying_pattern_apart_from_all_sections(self) -> None:
        rows = import_acl("pattern a/%c/#\npattern deny a/+/b\nuser x\ntopic c/#\n", "acl").rows
        self.assertTrue(rows[4].text().endswith("deny"))

    def test_one_that_meets_a_section_is_refused_with_both_lines(self) -> None:
        for topic in ("a/#", "#", "a/b/c", "+/+/c", "a/b/+"):
            with self.assertRaises(PolicyError) as caught:
                import_acl(f"user x\ntopic read {topic}\npattern a/#\npattern deny a/%c/c\n", "acl")
            (error,) = caught.exception.errors
            self.assertEqual(error.place, "acl:4")
            self.assertIn("acl:2 allows to user:x", str(error))

    def test_also_the_section_of_anonymous_clients(self) -> None:
        with self.assertRaises(PolicyError):
            import_acl("topic read a/#\npattern a/%c\npattern deny a/x\n", "acl")

    def test_what_a_section_denies_is_no_matter(self) -> None:
        import_acl("user x\ntopic deny a/#\npattern a/%c\npattern deny a/x\n", "acl")

    def test_one_that_denies_nothing_is_left_out(self) -> None:
        imported = import_acl("user x\ntopic read #\npattern b/%c\npattern deny a/%c\n", "acl")
        self.assertEqual(len(imported.rows), 5)
        self.assertIn("acl:4: left out", imported.warnings[-1])

    def overlapping(self, one: str, other: str) -> bool:
        found = overlap(parse_pattern(one), parse_pattern(other))
        self.assertEqual(found, overlap(parse_pattern(other), parse_pattern(one)))
        return found

    def test_overlap(self) -> None:
        for one, other, expected in (
            ("a", "a", True),
            ("a", "b", False),
            ("a/#", "a", True),
            ("a/#", "a/b/c", True),
            ("a/+", "a", False),
            ("a/+", "a/b", True),
            ("#", "$SYS/a", False),
            ("+/a", "$SYS/a", False),
            ("$SYS/#", "$SYS/a", True),
            ("%c/a", "$SYS/a", False),
            ("dev-%c/x", "desk/x", False),
            ("dev-%c/x", "dev-7/x", True),
            ("dev-%c/x", "dev-/x", False),
            ("%c-a/x", "b-a/x", True),
            ("%c-a/x", "b-b/x", False),
            ("a/%c", "a/+", True),
            ("a/%c", "a/x%u", True),
        ):
            self.assertEqual(self.overlapping(one, other), expected, (one, other))

    @steady
    @given(
        *[st.lists(st.sampled_from(["a", "b", "+", "$x"]), min_size=1, max_size=3)] * 2,
        st.booleans(),
        st.booleans(),
    )
    def test_overlap_of_filters(
        self, one: list[str], other: list[str], rest_of_one: bool, rest_of_other: bool
    ) -> None:
        """As many topics show as there are; `c` is a name that stands in none."""
        filters = ["/".join([*one, "#"] if rest_of_one else one)]
        filters.append("/".join([*other, "#"] if rest_of_other else other))
        topics = itertools.chain.from_iterable(
            itertools.product(["a", "b", "c", "$x"], repeat=length) for length in range(1, 5)
        )
        both = any(all(matches(each, "/".join(topic)) for each in filters) for topic in topics)
        self.assertEqual(self.overlapping(*filters), both)


def mosquitto_allows(acl: str, case: Case) -> bool:
    """What Mosquitto does, as its source reads: two lists, in each the denials first."""
    section: list[tuple[str, str]] = []
    patterns: list[tuple[str, str]] = []
    user = ""
    for line in acl.splitlines():
        word, _, rest = line.partition(" ")
        if word == "user":
            user = rest
            continue
        access, _, topic = rest.partition(" ")
        if word == "topic" and user == case.user:
            section.append((access, topic))
        elif word == "pattern" and (case.user or "%u" not in topic):
            topic = topic.replace("%c", case.client_id).replace("%u", case.user)
            patterns.append((access, topic))
    wanted = "write" if case.action == "publish" else "read"
    for rules in (section, patterns):
        fitting = [access for access, topic in rules if matches(topic, case.topic)]
        if "deny" in fitting:
            return False
        if wanted in fitting or "readwrite" in fitting:
            return True
    return False


def levels(*names: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda found, rest: "/".join([*found, "#"] if rest else found),
        st.lists(st.sampled_from(names), min_size=1, max_size=3),
        st.booleans(),
    )


access = st.sampled_from(["read", "write", "readwrite", "deny"])
lines = st.one_of(
    st.builds("topic {} {}".format, access, levels("a", "b", "c", "+", "u")),
    st.builds("pattern {} {}".format, access, levels("a", "b", "%c", "%u", "x%c", "+")),
    st.sampled_from(["user u", "user b"]),
)
cases = st.builds(
    Case,
    st.sampled_from(["", "u", "b"]),
    st.sampled_from(["a", "c", "ca"]),
    st.sampled_from(["publish", "receive"]),
    st.lists(st.sampled_from(["a", "b", "c", "u", "xa", "d"]), min_size=1, max_size=4).map(
        "/".join
    ),
    st.none(),
)


class RandomTests(TestCase):
    def test_the_model_is_mosquitto(self) -> None:
        """It decides the table, which the real one has decided, but for what is not about rules."""
        skipped = ("names that look like wildcards or placeholders", "how lines are written")
        for scenario in SCENARIOS:
            if scenario.name in skipped:
                continue
            for case in scenario.cases:
                action = case.action.partition(":")[0]
                if action == "subscribe" or case.topic.startswith("$"):
                    continue
                asked = "publish" if action in ("publish", "will") else "receive"
                model = Case(case.user, case.client_id, asked, case.topic, True)
                text = scenario.acl.replace("topic plain/", "topic readwrite plain/")
                self.assertEqual(mosquitto_allows(text, model), case.allowed, case)

    @settings(steady, max_examples=500)
    @given(st.lists(lines, max_size=8), st.lists(cases, min_size=5, max_size=5))
    def test_imported_rules_decide_the_same_or_are_refused(
        self, acl: list[str], questions: list[Case]
    ) -> None:
        text = "\n".join(acl)
        try:
            imported = import_acl(text, "acl")
        except PolicyError as error:
            # Only the one thing that rows cannot say.
            self.assertIn("this pattern denies topics", str(error))
            self.assertIn("pattern deny", text)
            return
        for case in questions:
            self.assertEqual(allows(imported, case), mosquitto_allows(text, case), case)

    @steady
    @given(st.text())
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        for read in (import_acl, import_passwords):
            try:
                read(text, "x")
            except PolicyError as error:
                self.assertTrue(all(each.place.startswith("x:") for each in error.errors))

    @steady
    @given(st.lists(st.one_of(st.text(), st.sampled_from(["topic", "user", "read", "#", " "]))))
    def test_any_words_are_read_or_refused(self, words: list[str]) -> None:
        try:
            import_acl(" ".join(words), "x")
        except PolicyError:
            pass


class PasswordTests(TestCase):
    def test_hashes(self) -> None:
        text = f"# users\nalice:{HASH}\n\nbob:{OLD_HASH}\r\n"
        self.assertEqual(import_passwords(text, "pw"), {"alice": HASH, "bob": OLD_HASH})

    def test_what_is_refused(self) -> None:
        for line in (
            "alice:plain",
            "alice:",
            "alice",
            f":{HASH}",
            "alice:$5$x$y",
            "alice:$7$0$c2FsdA==$aGFzaA==",
            "alice:$7$c2FsdA==$aGFzaA==",
            "alice:$6$$",
            f"alice:$6$c2FsdA==${'a' * 86}",
            "alice:$2b$04$" + "a" * 53,
        ):
            with self.assertRaises(PolicyError) as caught:
                import_passwords(f"\n{line}\n", "pw")
            (error,) = caught.exception.errors
            self.assertEqual(error.place, "pw:2")

    def test_a_password_is_not_shown(self) -> None:
        with self.assertRaises(PolicyError) as caught:
            import_passwords("alice:hunter2\n", "pw")
        self.assertNotIn("hunter2", str(caught.exception))
        self.assertIn("mosquitto_passwd -U", str(caught.exception))

    def test_a_user_twice(self) -> None:
        with self.assertRaisesRegex(PolicyError, "pw:2: there is a user 'a' already"):
            import_passwords(f"a:{HASH}\na:{HASH}\n", "pw")


class BothTests(TestCase):
    def test_rows_and_users(self) -> None:
        imported = import_mosquitto("user a\ntopic x\n", "acl", f"a:{HASH}\n", "pw")
        self.assertEqual((len(imported.rows), imported.users), (4, {"a": HASH}))
        self.assertEqual(imported.warnings, [])

    def test_all_that_is_wrong_with_either(self) -> None:
        with self.assertRaises(PolicyError) as caught:
            import_mosquitto("topic\n", "acl", "a:b\n", "pw")
        self.assertEqual([error.place for error in caught.exception.errors], ["acl:1", "pw:1"])

    def test_rules_without_a_password(self) -> None:
        imported = import_mosquitto(
            "user a\ntopic x\nuser b\ntopic y\n", "acl", f"a:{HASH}\n", "pw"
        )
        self.assertEqual(imported.warnings, ["there are rules, but no password, for user:b"])

    def test_no_passwords_at_all(self) -> None:
        (warning,) = import_mosquitto("user a\ntopic x\n", "acl").warnings
        self.assertIn("believes any user name", warning)
        self.assertEqual(import_mosquitto("topic x\n", "acl").warnings, [])


class ScenarioTests(TestCase):
    def test_users(self) -> None:
        scenario = Scenario("", "", (Case("b", "c", "publish", "x", True),))
        self.assertEqual(scenario.users, ["b", "writer"])
