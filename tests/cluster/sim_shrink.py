"""Fewer decisions with the same violation: what a failed history was about.

    shrink(plan, fails, in_time)   decisions are dropped for as long as `fails(plan)` stays true

First whole kinds of decisions, then halves, quarters and so on of what is left (delta debugging).
The noise depends on nothing but the time, so what stays happens much as it did.
"""

from collections.abc import Callable

from tests.cluster.sim_plan import Decision, Plan

KINDS = ("lost", "out of order", "twice", "rest", "retained", "wills", "is on", "Assertion")


def kinds(wrong: list[str]) -> set[str]:
    """Of which kinds violations are, whatever clients and numbers they name."""
    return {next((kind for kind in KINDS if kind in text), text) for text in wrong}


class Shrinker:
    def __init__(
        self, plan: Plan, fails: Callable[[Plan], bool], in_time: Callable[[], bool]
    ) -> None:
        self.plan = plan
        self.tried = 0
        self._fails = fails
        self._in_time = in_time

    def run(self) -> Plan:
        for group in sorted({_group(each) for each in self.plan.decisions}):
            self._try([each for each in self.plan.decisions if _group(each) != group])
        size = len(self.plan.decisions) // 2
        while size and self._in_time():
            if not self._drop(size):
                size //= 2
        return self.plan

    def _drop(self, size: int) -> bool:
        """Leave out each so many that follow each other; whether any were not needed."""
        before = len(self.plan.decisions)
        at = max(0, before - size)
        while self._in_time():
            decisions = self.plan.decisions
            self._try(decisions[:at] + decisions[at + size :])
            if at == 0:
                break
            at = max(0, at - size)
        return len(self.plan.decisions) < before

    def _try(self, decisions: list[Decision]) -> None:
        if len(decisions) < len(self.plan.decisions) and self._in_time():
            self.tried += 1
            plan = self.plan.having(decisions)
            if self._fails(plan):
                self.plan = plan


def _group(decision: Decision) -> str:
    """Decisions that are dropped together at first."""
    who = decision.args[0] if decision.kind in ("publish", "move") else ""
    return f"{decision.kind} {who}"
