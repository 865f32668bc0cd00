"""Rights that change while sessions exist: what must not happen any more, and who sees to it.

    Hub.rights_changed()   `rights` goes up: all that was decided before is to be decided anew
    Hub.review()           the same for one session: who its client is has changed, it came from the
                           store or from another node
    Revocation             goes through the sessions in slices, and withdraws subscriptions

Invariants
==========

From the moment at which rights_changed() returns, under the rights that hold then:

R1  Routes.  No message goes to a session by a subscription that its client might not make now, and
    none of a topic that it may not receive.  Routes are forgotten with the change.  Where one is
    built again, `receive` is asked for each session, and `subscribe` for each subscription whose
    session was not reviewed yet (`granted`).  So a message that comes before the review is judged
    as one that comes after it, and a message on a known route costs nothing.
R2  Queues in memory.  What waited when the rights changed is `unchecked`, and asked for when its
    turn comes.  It need not be sought out before: nothing leaves a queue another way.
R3  Queues that are paged out.  All that comes back from the store is unchecked.
R4  In flight.  What was sent stays with its client until that acknowledges it, as it has it.
    Whatever is sent again, after a reconnect, a restart or a migration, is asked for before.  So
    is a PUBLISH that waits for the store (`Connection.release`).  A PUBREL says nothing, and goes.
R5  Retained replay.  What was looked up before is asked for again before it is sent; what belongs
    to a subscription that is withdrawn is not sent at all.
R6  Shared groups.  A member that may not receive a topic is passed over (`Route.denied`), also by
    what another member leaves undone.  What may not be sent to the member that has it goes to
    another one, but for a QoS 2 delivery that has begun: its client may have that one.
R7  Wills.  Each is asked for when it is published, as who its client was with its last CONNECT.
R8  Sessions that come.  One that is restored, or has arrived from another node, is not reviewed:
    R1 to R5 hold for it from the first message on.  One that leaves is as it is; where it arrives,
    the rights are those of that node.
R9  Publishes.  A connection remembers answers of one revision of the rights only.

"Sent" is what was given to the transport; beyond that nobody can take it back.

What a review does on top of this: it asks whether a connected client may still connect, removes the
subscriptions that are not allowed any more, from the store as well, and tells MQTT 5 clients
(DISCONNECT 0x87, whose Reason String names a filter; their session goes on without it), as MQTT has
no packet to say so.  What a withdrawn subscription had brought before is the client's, if it may
receive it.

All of this is undone by nothing: a right that comes back brings no subscription back.  So an
authorizer is given to the hub with its whole policy, and never with a part of it.
"""

from typing import Final

from mhub.core.delivery import Subscriber

UNKNOWN: Final = -1
"""The revision of what has to be asked again, whatever the rights are."""

QUESTIONS: Final = 200
"""So many questions in a turn: one that the authorizer has to think about takes some 10 us."""


class Revocation:
    """The sessions that are still to be reviewed."""

    def __init__(self) -> None:
        self._left: list[Subscriber] = []
        self._at: Subscriber | None = None  # the one at hand,
        self._names: list[str] = []  # what is left of it,
        self._withdrawn: list[str] = []  # and what it has lost

    def is_pending(self) -> bool:
        return self._at is not None or bool(self._left)

    def begin(self, subscribers: list[Subscriber]) -> None:
        """Review all of these; what was begun under earlier rights is done with."""
        self._end()
        self._left = subscribers

    def add(self, subscriber: Subscriber) -> None:
        if subscriber is self._at:
            self._names = subscriber.begin_review()
        else:
            self._left.append(subscriber)

    def turn(self) -> None:
        """A slice of it."""
        questions = 0
        while questions < QUESTIONS:
            subscriber = self._at
            if subscriber is None:
                if not self._left:
                    return
                self._at = subscriber = self._left.pop()
                questions += 1
                self._names = subscriber.begin_review()
            while self._names and questions < QUESTIONS:
                questions += 1
                name = self._names.pop()
                if not subscriber.review(name):
                    self._withdrawn.append(name)
            if not self._names:
                self._end()

    def _end(self) -> None:
        subscriber = self._at
        if subscriber is None:
            return
        withdrawn = self._withdrawn
        is_whole = not self._names
        self._at = None
        self._names = []
        self._withdrawn = []
        subscriber.end_review(withdrawn, is_whole)
