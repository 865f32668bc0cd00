"""Questions to other nodes, and answers to theirs: what an operator asks of the whole cluster.

    here                                  there
    ask()  QUERY id, name, arguments  ->  on_query() -> Respondent -> Replying.reply(data)
    on_answer()                       <-  ANSWER id, the first part of the data
           ANSWER_MORE id             ->
           done(Outcome)              <-  ANSWER id, the last part

Messages of clients cross the same link, so answers are small parts, and the next one leaves when
the one before was taken: there is never more than a part of each answer in front of a message.

All of it is bounded: how many questions are under way in each direction, how long one is, how long
an answer is, and how long it may take.  A question ends with one call of `done`, whatever happens
(the answer, an error of the other node, no answer in time, the end of the link), or is cancelled.
A node that speaks an older version of the protocol is not asked.

What a question means and who answers it is not known here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack, with_data
from mhub.cluster.member import SUSPECT, Member
from mhub.cluster.said import Said, split
from mhub.wire.primitives import malformed

if TYPE_CHECKING:
    from mhub.cluster.node import Node

SINCE: Final = 3
"""The version of the peer protocol that has these frames."""

PART_BYTES: Final = 32 * 1024
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of an answer."""

MOST_QUERY_BYTES: Final = 256 * 1024
MOST_ASKED: Final = 64
"""Questions that are under way to one node at a time."""

MOST_ANSWERED: Final = 2 * MOST_ASKED
"""Questions of one node that are being answered: it may have given up some, which we do not know
yet."""

LONGEST_S: Final = 60.0
"""How long anybody may wait for an answer."""

# Kinds of errors, as mhub.operations.contract has them
NOT_ASKED: Final = "Unavailable"  # the other node cannot be asked at all
NO_ANSWER: Final = "TimedOut"  # it has not answered
UNABLE: Final = "OperationError"  # it does not answer, and says why


class Outcome:
    """What a question has come to."""

    def __init__(self, data: bytes, error: str = "", text: str = "") -> None:
        self.data = data  # the answer, as JSON
        self.error = error  # the kind of an error; "": there is none
        self.text = text  # why, for people


Done = Callable[[Outcome], None]


class Asked:
    """A question to another node."""

    def __init__(self, number: int, member: Member, done: Done, ends_at: float) -> None:
        self.number = number
        self.member = member
        self.done = done
        self.ends_at = ends_at
        self.parts: list[bytes] = []
        self.size_bytes = 0


class Replying:
    """A question of another node, while it is being answered."""

    def __init__(self, queries: "Queries", member: Member, number: int, ends_at: float) -> None:
        self.number = number
        self.ends_at = ends_at
        self.cancel: Callable[[], None] = _nothing  # nobody waits for the answer any more
        self._queries = queries
        self._member = member
        self._data = b""
        self._at = 0

    def reply(self, data: bytes) -> None:
        """The answer, as JSON."""
        if len(data) > MOST_BYTES:
            self.fail(UNABLE, f"the answer has {len(data)} bytes; ask for less")
        elif self._queries.is_answering(self._member, self):
            self._data = data
            self.send()

    def fail(self, error: str, text: str) -> None:
        """The kind of error, and why."""
        self._queries.send_answer(self._member, self, True, text.encode()[:PART_BYTES], error)

    def send(self) -> None:
        """The next part."""
        part = self._data[self._at : self._at + PART_BYTES]
        self._at += len(part)
        self._queries.send_answer(self._member, self, self._at >= len(self._data), part, "")


def _nothing() -> None:
    pass


Respondent = Callable[[str, dict[str, Any], Replying], None]
"""Answers a question by its name and arguments: at once or later, by Replying."""


def _nobody(name: str, arguments: dict[str, Any], replying: Replying) -> None:
    replying.fail(UNABLE, "this node answers no questions yet")


class Queries:
    def __init__(self, node: "Node") -> None:
        self.respondent: Respondent = _nobody
        self._node = node
        self._number = 0
        self._asked: dict[int, Asked] = {}
        self._answering: dict[str, dict[int, Replying]] = {}  # by the name of the node

    def handlers(self) -> dict[int, Callable[[Member, bytes], None]]:
        return {
            frames.QUERY: self.on_query,
            frames.ANSWER: self.on_answer,
            frames.ANSWER_MORE: self.on_more,
        }

    # Asking

    def why_not(self, member: Member) -> str:
        """Why a node cannot be asked; "": it can."""
        if member.link is None or not member.resumed:
            return f"node {member.name} is {member.state}"
        if member.state == SUSPECT:
            return f"node {member.name} is {member.state}: {member.note}"
        if member.protocol < SINCE:
            return f"node {member.name} has an older release, which answers no questions"
        return ""

    def ask(
        self, member: Member, name: str, arguments: dict[str, Any], within_s: float, done: Done
    ) -> Asked | None:
        """`done` may be called before this returns; then there is nothing to be given up."""
        within_s = min(within_s, LONGEST_S)
        why_not = self.why_not(member)
        if not why_not and self._under_way(member) >= MOST_ASKED:
            why_not = f"{MOST_ASKED} questions to node {member.name} are under way; try again"
        body = b""
        if not why_not:
            self._number += 1
            body = pack(id=self._number, name=name, arguments=arguments, within_s=within_s)
            if len(body) > MOST_QUERY_BYTES:
                why_not = f"a question of {len(body)} bytes is too long for other nodes"
        if why_not:
            done(Outcome(b"", NOT_ASKED, why_not))
            return None
        asked = Asked(self._number, member, done, self._node.clock() + within_s)
        self._asked[self._number] = asked
        self._node.send(member, frames.QUERY, body)
        return asked

    def _under_way(self, member: Member) -> int:
        return sum(1 for asked in self._asked.values() if asked.member is member)

    def cancel(self, asked: Asked) -> bool:
        """Nobody wants the answer any more: `done` is not called.  False: it was called before."""
        if self._asked.pop(asked.number, None) is None:
            return False
        self._node.send(asked.member, frames.ANSWER_MORE, pack(id=asked.number, stop=True))
        return True

    def _give_up(self, asked: Asked, text: str) -> None:
        """The answer has not come, or not as it has to be."""
        if self.cancel(asked):
            asked.done(Outcome(b"", NO_ANSWER, text))

    def on_answer(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        number, is_last, error = said.number("id"), said.flag("last"), said.text("error")
        asked = self._asked.get(number)
        if asked is None or asked.member is not member:
            return  # it was given up
        if error:
            del self._asked[number]
            asked.done(Outcome(b"", error, data.decode("utf-8", "replace")))
            return
        asked.parts.append(data)
        asked.size_bytes += len(data)
        if asked.size_bytes > MOST_BYTES:
            self._give_up(asked, f"the answer of node {member.name} is longer than it may be")
        elif is_last:
            del self._asked[number]
            asked.done(Outcome(b"".join(asked.parts)))
        elif not data:
            raise malformed("an empty part of an answer")
        else:
            self._node.send(member, frames.ANSWER_MORE, pack(id=number, stop=False))

    # Answering

    def on_query(self, member: Member, body: bytes) -> None:
        said = Said(body)
        number, name = said.number("id"), said.text("name")
        arguments, within_s = said.by_name("arguments"), said.real("within_s")
        answering = self._answering.setdefault(member.name, {})
        if number in answering:
            raise malformed(f"two questions with the number {number}")
        ends_at = self._node.hub.now + min(max(within_s, 0.0), LONGEST_S)
        replying = Replying(self, member, number, ends_at)
        is_full = len(answering) >= MOST_ANSWERED
        answering[number] = replying
        if is_full:
            replying.fail(UNABLE, f"{MOST_ANSWERED} questions are being answered; try again")
        else:
            self.respondent(name, arguments, replying)

    def is_answering(self, member: Member, replying: Replying) -> bool:
        return self._answering.get(member.name, {}).get(replying.number) is replying

    def send_answer(
        self, member: Member, replying: Replying, is_last: bool, data: bytes, error: str
    ) -> None:
        if not self.is_answering(member, replying):
            return
        if is_last:
            del self._answering[member.name][replying.number]
        head = {"id": replying.number, "last": is_last, "error": error}
        self._node.send(member, frames.ANSWER, with_data(data, **head))

    def on_more(self, member: Member, body: bytes) -> None:
        said = Said(body)
        number, is_over = said.number("id"), said.flag("stop")
        replying = self._answering.get(member.name, {}).get(number)
        if replying is None:
            return
        if is_over:
            self._drop(member.name, replying)
        else:
            replying.send()

    def _drop(self, name: str, replying: Replying) -> None:
        del self._answering[name][replying.number]
        replying.cancel()

    # The end

    def tick(self, now: float) -> None:
        for asked in [each for each in self._asked.values() if each.ends_at <= now]:
            self._give_up(asked, f"node {asked.member.name} has not answered in time")
        for name, answering in self._answering.items():
            for replying in [each for each in answering.values() if each.ends_at <= now]:
                self._drop(name, replying)

    def unlinked(self, member: Member) -> None:
        for asked in [each for each in self._asked.values() if each.member is member]:
            del self._asked[asked.number]
            asked.done(Outcome(b"", NO_ANSWER, f"the link with node {member.name} was lost"))
        for replying in self._answering.pop(member.name, {}).values():
            replying.cancel()
