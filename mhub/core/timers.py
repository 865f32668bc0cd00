"""One wheel for every deadline: keep-alive, CONNECT time-out, session expiry, delayed wills.

Time is cut into slots; each slot lists who has to be looked at when it has passed.  Activity does
not move anybody between slots: whoever is found with a deadline that has moved on is put into a
later slot then.  So a message costs nothing here, an idle connection is looked at once per
keep-alive, and there is no timer per connection.
"""

from typing import Final

SLOTS_PER_SECOND: Final = 4


class Timed:
    """Something with a deadline."""

    def __init__(self) -> None:
        self.slot = 0  # where the wheel has it; 0: nowhere

    def fire(self, now: float) -> float:
        """Act if the deadline has come; the next deadline, or 0 for none."""
        raise NotImplementedError


class Wheel:
    def __init__(self) -> None:
        self.slots: dict[int, list[Timed]] = {}
        self.done = 0  # slots up to this one were handled

    def arm(self, timed: Timed, deadline: float) -> None:
        """Look at it when the deadline has passed; an earlier arm() of a later one is void."""
        slot = int(deadline * SLOTS_PER_SECOND) + 1
        if slot <= self.done:
            slot = self.done + 1
        if timed.slot and timed.slot <= slot:
            return  # it will be looked at before, and asked again then
        timed.slot = slot
        listed = self.slots.get(slot)
        if listed is None:
            self.slots[slot] = [timed]
        else:
            listed.append(timed)

    def disarm(self, timed: Timed) -> None:
        timed.slot = 0

    def tick(self, now: float) -> None:
        """Handle every slot that has passed."""
        current = int(now * SLOTS_PER_SECOND)
        if not self.slots:
            self.done = current
            return
        if current - self.done > len(self.slots):
            due = sorted(slot for slot in self.slots if slot <= current)
        else:
            due = [slot for slot in range(self.done + 1, current + 1) if slot in self.slots]
        self.done = current
        for slot in due:
            for timed in self.slots.pop(slot):
                if timed.slot == slot:
                    timed.slot = 0
                    deadline = timed.fire(now)
                    if deadline:
                        self.arm(timed, deadline)
