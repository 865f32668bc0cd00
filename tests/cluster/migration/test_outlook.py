"""What an operator sees of sessions between nodes: numbers, and lines that say what to do."""

from mhub.cluster.migration.outlook import LONG_S
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import TargetCase

NONE = {"migrating": 0, "waiting": 0, "merging": 0, "held": 0}
NONE_OF_IT = {"waiting": 0, "merging": 0, "held": 0}


class HeldTests(SourceCase):
    """A session has left, and node c is away: it has not switched to the new place."""

    def gone(self) -> None:
        self.ended()
        self.here.lose(self.c)
        self.done()

    def lines(self) -> list[str]:
        return [line for line in self.here.lines if "has not switched" in line]

    def test_while_a_session_leaves_it_migrates(self) -> None:
        self.idle()
        self.assertEqual(self.migration.outlook.numbers(), NONE)
        self.ended()
        self.assertEqual(self.migration.outlook.numbers(), {**NONE, "migrating": 1})

    def test_for_which_node_and_since_when(self) -> None:
        self.gone()
        since = self.here.world.now
        self.assertEqual(self.migration.outlook.numbers(), {**NONE, "held": 1})
        self.here.wait(10.0)
        self.assertEqual(self.migration.outlook.of("c"), ({**NONE_OF_IT, "held": 1}, since))
        self.assertEqual(self.migration.outlook.of("b"), (NONE_OF_IT, 0.0))

    def test_what_takes_long_is_logged_once(self) -> None:
        self.gone()
        self.here.wait(LONG_S - 11.0)
        self.assertEqual(self.lines(), [])
        self.here.wait(22.0)
        self.assertEqual(len(self.lines()), 1)
        self.here.wait(2 * LONG_S)
        self.assertEqual(len(self.lines()), 1)
        self.assertIn("node c has not switched", self.lines()[0])
        self.assertIn("client 's'", self.lines()[0])
        self.assertIn("It is dead", self.lines()[0])
        self.assertIn("'mhub ctl cluster forget c'", self.lines()[0])

    def test_a_node_that_has_switched_ends_it(self) -> None:
        self.gone()
        self.here.wait(LONG_S + 11.0)
        self.c = self.here.meet("c")
        self.c.switched("s", self.claimed)
        self.here.wait(11.0)
        self.assertEqual(self.migration.outlook.numbers(), NONE)
        self.assertEqual(self.migration.outlook.of("c"), (NONE_OF_IT, 0.0))


class MergingTests(SourceCase):
    """Node b has a newer session, node c is away."""

    def lines(self) -> list[str]:
        return [line for line in self.here.lines if "beside a newer one" in line]

    def test_which_node_it_waits_for(self) -> None:
        self.leaving()
        self.here.lose(self.c)
        self.assertEqual(self.migration.outlook.numbers(), {**NONE, "merging": 1})
        self.assertEqual(self.migration.outlook.of("c"), ({**NONE_OF_IT, "merging": 1}, 0.0))

    def test_what_takes_long_is_logged_once(self) -> None:
        self.leaving()
        self.here.lose(self.c)
        self.here.wait(LONG_S - 11.0)
        self.assertEqual(self.lines(), [])
        self.here.wait(2 * LONG_S)
        self.assertEqual(len(self.lines()), 1)
        self.assertIn("the session of client 's' is kept here", self.lines()[0])
        self.assertIn("node c does not know of that", self.lines()[0])
        self.assertIn("'mhub ctl cluster forget c'", self.lines()[0])


class WaitingTests(TargetCase):
    def test_a_session_that_comes_migrates(self) -> None:
        self.arriving()
        self.assertEqual(self.migration.outlook.numbers(), {**NONE, "migrating": 1})

    def test_one_that_has_come_waits_for_nodes_that_have_not_switched(self) -> None:
        self.arriving()
        self.end("c")
        self.here.settle()
        self.assertEqual(self.migration.outlook.numbers(), {**NONE, "waiting": 1})
        self.assertEqual(self.migration.outlook.of("c"), ({**NONE_OF_IT, "waiting": 1}, 0.0))
        self.c.marks("s", self.epoch())
        self.assertEqual(self.migration.outlook.numbers(), NONE)

    def test_a_client_that_has_missed_something(self) -> None:
        """The line says what it means for the client."""
        self.arriving()
        self.end("c")
        self.here.settle()
        self.c.marks("s", self.epoch(), gap=True)
        (line,) = [line for line in self.here.lines if "may be missing" in line]
        self.assertIn("client 's' is disconnected and will be told Session Present 0", line)
        self.assertIn("published at node c", line)

    def test_a_client_whose_session_cannot_be_asked_for(self) -> None:
        """The line says where it may be."""
        self.begin("bc")
        self.b.table(("cs", 1000 << 1))
        self.here.lose(self.b)
        self.client = self.connect()
        self.here.wait(30.0)
        self.assertFalse(self.present())
        (line,) = [line for line in self.here.lines if "has a new session" in line]
        self.assertIn("client 's' is told Session Present 0", line)
        self.assertIn("may be at node b, which cannot be asked", line)
