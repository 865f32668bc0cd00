"""Questions between nodes: one answer for each, in parts, within bounds, whatever happens."""

import json
from collections import deque
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames, queries
from mhub.cluster.frames import pack, with_data
from mhub.cluster.node import Node, NodeSettings
from mhub.cluster.queries import MOST_ANSWERED, MOST_ASKED, PART_BYTES, Outcome, Replying
from mhub.core.events import CRASHED, Event
from tests.cluster.bending import bend
from tests.cluster.far import Far, Here
from tests.cluster.simulation import SimNode, Simulation, node_of


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.here = Here()
        self.far = self.here.link()
        self.outcomes: list[Outcome] = []

    def ask(self, name: str = "status", within_s: float = 2.0, **arguments: Any) -> Any:
        node = self.here.node
        return node.queries.ask(node.members["b"], name, arguments, within_s, self.outcomes.append)

    def outcome(self) -> Outcome:
        self.assertEqual(len(self.outcomes), 1)
        return self.outcomes.pop()

    def answer(self, number: int, data: bytes, last: bool = True, error: str = "") -> None:
        head = {"id": number, "last": last, "error": error}
        self.far.give(frames.ANSWER, with_data(data, **head))

    def later(self, seconds: float) -> None:
        self.here.world.now += seconds
        self.here.node.tick(self.here.world.now)


class AskingTests(Case):
    def test_an_answer_comes_in_parts(self) -> None:
        """The next part is asked for when one has come."""
        self.ask("clients", limit=3)
        [query] = self.far.told(frames.QUERY)
        self.assertEqual(query["name"], "clients")
        self.assertEqual(query["arguments"], {"limit": 3})
        self.answer(query["id"], b'{"a"', False)
        self.assertEqual(self.far.told(frames.ANSWER_MORE), [{"id": query["id"], "stop": False}])
        self.assertEqual(self.outcomes, [])
        self.answer(query["id"], b":1}")
        found = self.outcome()
        self.assertEqual((found.data, found.error), (b'{"a":1}', ""))
        self.assertEqual(self.far.told(frames.ANSWER_MORE), [])

    def test_an_error_keeps_its_kind(self) -> None:
        self.ask()
        [query] = self.far.told(frames.QUERY)
        self.answer(query["id"], b"there is no such client", error="NotThere")
        found = self.outcome()
        self.assertEqual((found.error, found.text), ("NotThere", "there is no such client"))

    def test_no_answer_in_time(self) -> None:
        """The other node is told, and what it sends after that is dropped."""
        self.ask(within_s=2.0)
        [query] = self.far.told(frames.QUERY)
        self.later(1.9)
        self.assertEqual(self.outcomes, [])
        self.later(0.1)
        self.assertEqual(self.outcome().error, queries.NO_ANSWER)
        self.assertEqual(self.far.told(frames.ANSWER_MORE), [{"id": query["id"], "stop": True}])
        self.answer(query["id"], b"1")
        self.assertEqual((self.outcomes, self.far.closed), ([], ""))

    def test_a_question_that_is_cancelled(self) -> None:
        asked = self.ask()
        [query] = self.far.told(frames.QUERY)
        self.assertTrue(self.here.node.queries.cancel(asked))
        self.assertFalse(self.here.node.queries.cancel(asked))
        self.assertEqual(self.far.told(frames.ANSWER_MORE), [{"id": query["id"], "stop": True}])
        self.answer(query["id"], b"1")
        self.later(5.0)
        self.assertEqual(self.outcomes, [])

    def test_a_link_that_ends_ends_its_questions(self) -> None:
        self.ask()
        self.here.node.lost(self.far, "broken")
        self.assertEqual(self.outcome().error, queries.NO_ANSWER)
        self.assertEqual(self.ask(), None)
        self.assertIn("node b is down", self.outcome().text)

    def test_a_suspected_node_is_not_waited_for(self) -> None:
        self.later(self.here.node.settings.suspect_s)
        self.ask()
        self.assertIn("suspect", self.outcome().text)
        self.assertEqual(self.far.told(frames.QUERY), [])

    def test_bounds(self) -> None:
        for _ in range(MOST_ASKED):
            self.ask()
        self.assertEqual(self.outcomes, [])
        self.ask()
        self.assertIn("try again", self.outcome().text)
        first = self.far.told(frames.QUERY)[0]["id"]
        self.answer(first, b"1")
        self.assertEqual(self.outcome().data, b"1")
        self.ask(match="x" * queries.MOST_QUERY_BYTES)
        self.assertIn("too long", self.outcome().text)

    def test_an_answer_without_end_is_given_up(self) -> None:
        self.ask()
        [query] = self.far.told(frames.QUERY)
        for _ in range(queries.MOST_BYTES // PART_BYTES):
            self.answer(query["id"], bytes(PART_BYTES), False)
        self.assertEqual(self.outcomes, [])
        self.far.told(frames.ANSWER_MORE)
        self.answer(query["id"], b"x", False)
        self.assertIn("longer", self.outcome().text)
        self.assertEqual(self.far.told(frames.ANSWER_MORE), [{"id": query["id"], "stop": True}])

    def test_an_answer_of_another_node_is_none(self) -> None:
        other = Far(self.here, "c")
        self.here.meet(other)
        self.ask()
        [query] = self.far.told(frames.QUERY)
        other.give(frames.ANSWER, with_data(b"1", id=query["id"], last=True, error=""))
        self.assertEqual(self.outcomes, [])

    def test_a_part_without_anything_ends_the_link(self) -> None:
        """It could go on so for ever."""
        self.ask()
        [query] = self.far.told(frames.QUERY)
        self.answer(query["id"], b"", False)
        self.assertIn("an empty part", self.far.closed)
        self.assertEqual(self.outcome().error, queries.NO_ANSWER)


class AnsweringTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.asked: list[tuple[str, dict[str, Any], Replying]] = []
        self.cancelled = 0
        self.here.node.queries.respondent = self.respond

    def respond(self, name: str, arguments: dict[str, Any], replying: Replying) -> None:
        self.asked.append((name, arguments, replying))
        replying.cancel = self.cancel

    def cancel(self) -> None:
        self.cancelled += 1

    def query(self, number: int = 1, name: str = "status", **arguments: Any) -> Replying:
        self.far.say(frames.QUERY, id=number, name=name, arguments=arguments, within_s=2.0)
        return self.asked[-1][2]

    def parts(self) -> list[tuple[dict[str, Any], bytes]]:
        found = []
        for body in self.far.took(frames.ANSWER):
            head, _, data = body.partition(b"\n")
            found.append((json.loads(head), data))
        return found

    def test_a_part_at_a_time(self) -> None:
        """Not all at once: messages are not to wait behind a long answer."""
        replying = self.query(7, "clients", limit=2)
        self.assertEqual(self.asked[0][:2], ("clients", {"limit": 2}))
        data = b"x" * (2 * PART_BYTES + 1)
        replying.reply(data)
        taken = b""
        for is_last in (False, False, True):
            [(head, part)] = self.parts()
            self.assertEqual(head, {"id": 7, "last": is_last, "error": ""})
            taken += part
            self.far.say(frames.ANSWER_MORE, id=7, stop=False)
        self.assertEqual(taken, data)
        self.assertEqual(self.parts(), [])

    def test_errors(self) -> None:
        self.query().fail("BadArgument", "limit: expected more")
        [(head, text)] = self.parts()
        self.assertEqual(head, {"id": 1, "last": True, "error": "BadArgument"})
        self.assertEqual(text, b"limit: expected more")
        self.query(2).reply(bytes(queries.MOST_BYTES + 1))
        [(head, text)] = self.parts()
        self.assertEqual(head["error"], "OperationError")

    def test_an_answer_that_nobody_wants_any_more(self) -> None:
        replying = self.query()
        self.far.say(frames.ANSWER_MORE, id=1, stop=True)
        self.assertEqual(self.cancelled, 1)
        replying.reply(b"1")
        replying.fail("NotThere", "")
        self.assertEqual(self.parts(), [])

    def test_the_end_of_the_time_or_of_the_link(self) -> None:
        replying = self.query(1)
        self.later(2.0)
        self.assertEqual(self.cancelled, 1)
        replying.reply(b"1")
        self.assertEqual(self.parts(), [])
        self.query(2)
        self.here.node.lost(self.far, "broken")
        self.assertEqual(self.cancelled, 2)

    def test_no_more_than_so_many_at_a_time(self) -> None:
        for number in range(MOST_ANSWERED):
            self.query(number)
        self.assertEqual(self.parts(), [])
        self.query(MOST_ANSWERED)
        [(head, _)] = self.parts()
        self.assertEqual(head, {"id": MOST_ANSWERED, "last": True, "error": "OperationError"})
        self.assertEqual(len(self.asked), MOST_ANSWERED)

    def test_a_node_that_has_nobody_who_answers(self) -> None:
        self.here.node.queries.respondent = queries._nobody
        self.far.say(frames.QUERY, id=1, name="x", arguments={}, within_s=1)
        [(head, _)] = self.parts()
        self.assertEqual(head["error"], "OperationError")

    def test_questions_pass_messages_that_wait_for_the_store(self) -> None:
        node = self.here.node
        member = node.members["b"]
        node.inbox._waiting[member] = deque([(frames.MEMBERS, pack(members={}))])
        node.inbox._has_to_wait = lambda: True  # type: ignore[method-assign]
        self.query().reply(b"1")
        self.assertEqual(len(self.parts()), 1)


class OldNode(SimNode):
    """One that does not know these frames."""

    def change(self, settings: NodeSettings) -> None:
        settings.protocol = 2


class OldSimulation(Simulation):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.nodes["b"] = OldNode(self, "b", True, 0.0)
        self.sent: set[int] = set()

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        self.sent.add(kind)
        return [(kind, body)]


class BentNode(SimNode):
    crashes: list[str]

    def emit(self, event: Event) -> None:
        super().emit(event)
        if event.kind == CRASHED:
            self.crashes.append(f"{event.text} {event.error!r}")


class BentSimulation(Simulation):
    """Some frames of questions are not what they were when they arrive."""

    def __init__(self, seed: int, names: str) -> None:
        super().__init__(seed, names)
        self.chance = Random(seed)
        self.crashes: list[str] = []
        for name in names:
            node = BentNode(self, name, True, 0.0)
            node.crashes = self.crashes
            self.nodes[name] = node

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        if kind in (frames.QUERY, frames.ANSWER, frames.ANSWER_MORE):
            if self.chance.random() < 0.2:
                body = bend(self.chance, body)
        return [(kind, body)]


class BentTests(SynchronousTestCase):
    def test_frames_that_are_not_right_are_no_defect_of_ours(self) -> None:
        """Each question comes to one end, and the links come back."""
        for seed in range(10):
            sim = BentSimulation(seed, "ab")
            sim.start()
            sim.run(5.0)
            outcomes: list[list[Outcome]] = []
            for _ in range(20):
                for side in sim.nodes.values():
                    node = node_of(side)
                    node.queries.respondent = lambda name, arguments, replying: replying.reply(
                        bytes(2 * PART_BYTES)
                    )
                    [member] = node.members.values()
                    outcomes.append([])
                    node.queries.ask(member, "x", {"y": [1]}, 2.0, outcomes[-1].append)
                sim.run(sim.chance.choice([0.0, 0.1, 3.0]))
            sim.run(30.0)
            self.assertEqual([len(each) for each in outcomes], [1] * len(outcomes))
            self.assertEqual(sim.crashes, [])
            self.assertTrue(sim.whole())


class ClusterTests(SynchronousTestCase):
    def ask(self, sim: Simulation, node: Node, name: str, outcomes: list[Outcome]) -> None:
        node.queries.ask(node.members[name], "echo", {"x": 1}, 2.0, outcomes.append)

    def test_nodes_ask_each_other_at_the_same_time(self) -> None:
        sim = Simulation(1, "abc")
        sim.start()
        sim.run(5.0)
        for name, side in sim.nodes.items():

            def respond(
                what: str, arguments: dict[str, Any], replying: Replying, who: str = name
            ) -> None:
                text = json.dumps([who, what, arguments, "x" * 3 * PART_BYTES]).encode()
                sim.later(0.1, lambda: replying.reply(text))

            node_of(side).queries.respondent = respond
        outcomes: list[Outcome] = []
        for side in sim.nodes.values():
            for name in sim.nodes.keys() - {side.name}:
                for _ in range(10):
                    self.ask(sim, node_of(side), name, outcomes)
        sim.run(2.0)
        self.assertEqual(len(outcomes), 60)
        found = [json.loads(outcome.data)[0] for outcome in outcomes]
        self.assertEqual({name: found.count(name) for name in "abc"}, dict.fromkeys("abc", 20))

    def test_one_that_cannot_be_reached_is_given_up_in_time(self) -> None:
        sim = Simulation(1, "ab")
        sim.start()
        sim.run(5.0)
        sim.split({"a"}, {"b"})
        outcomes: list[Outcome] = []
        self.ask(sim, node_of(sim.nodes["a"]), "b", outcomes)
        sim.run(2.5)
        self.assertEqual([outcome.error for outcome in outcomes], [queries.NO_ANSWER])

    def test_a_node_of_the_version_before_is_linked_and_not_asked(self) -> None:
        sim = OldSimulation(1, "ab")
        sim.start()
        sim.run(5.0)
        a, b = (node_of(side) for side in sim.nodes.values())
        self.assertEqual((a.members["b"].state, b.members["a"].state), ("up", "up"))
        outcomes: list[Outcome] = []
        self.ask(sim, a, "b", outcomes)
        self.ask(sim, b, "a", outcomes)
        self.assertEqual([outcome.error for outcome in outcomes], [queries.NOT_ASKED] * 2)
        self.assertIn("older release", outcomes[0].text)
        sim.run(1.0)
        self.assertFalse(sim.sent & {frames.QUERY, frames.ANSWER, frames.ANSWER_MORE})
