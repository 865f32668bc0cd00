"""One wheel for every deadline: keep-alive, CONNECT time-out, session expiry, delayed wills.

Something timed may have several deadlines at once, as a session has for its will and for its end.
It says which one is the earliest, deadline(), and acts on whichever has come, fire().  The wheel
looks at it once for all of them, and asks it again then.

Time is cut into slots; each slot lists who has to be looked at when it has passed.  Activity does
not move anybody between slots: whoever is found with a deadline that has moved on is put into a
later slot then.  So a message costs nothing here, an idle connection is looked at once per
keep-alive, and there is no timer per connection.
"""

from typing import Final

SLOTS_PER_SECOND: Final = 4


def earliest(one: float, other: float) -> float:
    """The earlier of two deadlines, of which 0 is never."""
    if one == 0.0 or (other != 0.0 and other < one):
        return other
    return one


class Timed:
    """Something with deadlines."""

    def __init__(self) -> None:
        self.slot = 0  # where the wheel has it; 0: nowhere

    def deadline(self) -> float:
        """The earliest one; 0: none."""
        raise NotImplementedError

    def fire(self, now: float) -> None:
        """Act on those that have come."""
        raise NotImplementedError


class Wheel:
    def __init__(self) -> None:
        self.slots: dict[int, dict[Timed, bool]] = {}
        self.done = 0  # slots up to this one were handled

    def arm(self, timed: Timed, deadline: float) -> None:
        """Look at it when the deadline has passed; an earlier arm() of a later one is void."""
        if not deadline:
            return
        slot = int(deadline * SLOTS_PER_SECOND) + 1
        if slot <= self.done:
            slot = self.done + 1
        if timed.slot and timed.slot <= slot:
            return  # it will be looked at before, and asked again then
        self.disarm(timed)
        timed.slot = slot
        listed = self.slots.get(slot)
        if listed is None:
            self.slots[slot] = {timed: True}
        else:
            listed[timed] = True

    def disarm(self, timed: Timed) -> None:
        if timed.slot:
            listed = self.slots.get(timed.slot)
            if listed is not None:
                listed.pop(timed, None)
                if not listed:
                    del self.slots[timed.slot]
            timed.slot = 0

    def tick(self, now: float) -> list[Timed]:
        """Those whose slot has passed; the caller fires each and arms it again."""
        current = int(now * SLOTS_PER_SECOND)
        if not self.slots:
            self.done = current
            return []
        if current - self.done > len(self.slots):
            due = sorted(slot for slot in self.slots if slot <= current)
        else:
            due = [slot for slot in range(self.done + 1, current + 1) if slot in self.slots]
        self.done = current
        found: list[Timed] = []
        for slot in due:
            for timed in self.slots.pop(slot):
                timed.slot = 0
                found.append(timed)
        return found
