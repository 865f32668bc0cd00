"""What nodes ask each other: checked, answered by operations, and read back as what it was."""

from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations.contract import (
    BadArgument,
    NotThere,
    OperationError,
    Reply,
    TimedOut,
    Unavailable,
)
from mhub.operations.operations import Operations
from mhub.operations.questions import QUESTIONS, respond, result_of
from tests.core.world import World
from tests.operations.around import Around, Pauses


class QuestionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.operations = Operations(
            self.world.hub, Around(self.world.hub), lambda: self.world.now, Pauses()
        )

    def answer(self, name: str, **arguments: Any) -> bytes:
        return self.successResultOf(
            Deferred.fromCoroutine(respond(self.operations, name, arguments))
        )

    def refuses(self, name: str, **arguments: Any) -> str:
        asked = Deferred.fromCoroutine(respond(self.operations, name, arguments))
        return str(self.failureResultOf(asked, BadArgument).value)

    def test_results_are_read_back_as_they_were(self) -> None:
        client = self.world.client("a", 5, will=("w", b"x", 1, False))
        client.subscribe("t/#", 1)
        client.publish("t/1", b"x", 0)
        self.world.wait(30.0, 6)
        for name, arguments in (
            ("status", {}),
            ("clients", {"limit": 10}),
            ("client", {"client_id": "a"}),
            ("held", {"client_ids": ["a", "b"]}),
            ("held_page", {}),
            ("subscriptions", {}),
            ("routes", {"topic": "t/1"}),
            ("topics_top", {}),
            ("topics_tree", {}),
        ):
            data = self.answer(name, **arguments)
            found = result_of(name, Reply(data))
            self.assertEqual(msgspec.json.encode(found), data, name)
        self.assertEqual(
            result_of("client", Reply(self.answer("client", client_id="a"))),
            self.operations.client("a"),
        )

    def test_every_question_can_be_read(self) -> None:
        for question in QUESTIONS.values():
            msgspec.json.Decoder(question._result)

    def test_arguments_are_checked(self) -> None:
        self.assertIn("client_id", self.refuses("client"))
        self.assertIn("more", self.refuses("client", client_id="a", more=1))
        self.assertIn("int", self.refuses("clients", limit="1"))
        self.assertIn("stop", self.refuses("stop"))
        self.assertIn("__init__", self.refuses("__init__"))

    def test_errors_keep_their_kind(self) -> None:
        for error, kind in (
            ("NotThere", NotThere),
            ("TimedOut", TimedOut),
            ("Unavailable", Unavailable),
            ("SomethingNew", OperationError),
        ):
            with self.assertRaises(kind) as raised:
                result_of("client", Reply(b"", error, "why"))
            self.assertEqual((type(raised.exception), str(raised.exception)), (kind, "why"))

    def test_an_answer_of_another_release(self) -> None:
        """More fields are left out, other types are no answer."""
        data = msgspec.json.encode({"clients": [], "left": 0, "sessions": 0, "new": [1]})
        self.assertEqual(result_of("clients", Reply(data)).clients, ())
        for bad in (b'{"clients": 1}', b"{}", b"[", b"\xff"):
            with self.assertRaises(Unavailable):
                result_of("clients", Reply(bad))
