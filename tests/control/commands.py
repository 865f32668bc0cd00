"""Commands for a control socket under test."""

from twisted.internet.defer import Deferred

from mhub.control.connection import Say
from mhub.control.contract import ControlError


class Commands(dict):
    """What the tests ask for."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[object]] = []
        super().__init__(echo=self.echo, wait=self.wait, later=self.later, no=self.no, bad=self.bad)

    def echo(self, arguments: dict[str, object], say: Say) -> object:
        return arguments

    def wait(self, arguments: dict[str, object], say: Say) -> Deferred[object]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    async def later(self, arguments: dict[str, object], say: Say) -> object:
        say("one")
        say("two")
        return await self.wait(arguments, say)

    def no(self, arguments: dict[str, object], say: Say) -> object:
        raise ControlError("not today")

    def bad(self, arguments: dict[str, object], say: Say) -> object:
        return arguments["missing"]
