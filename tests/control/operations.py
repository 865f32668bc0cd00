"""Operations for a control socket under test."""

from collections.abc import AsyncIterator, Callable

from twisted.internet.defer import Deferred

from mhub.operations.contract import ClientPage, NotThere, OperationError, Say


class FakeAccess:
    """Some of the calls."""

    def __init__(self) -> None:
        self.users = self
        self.added: list[object] = []

    def page(self, **asked: object) -> object:
        return asked

    async def add(self, **asked: object) -> object:
        self.added.append(asked)
        return {"version": "1"}


class FakeOperations:
    """The names are those of the real ones; what they do is what the tests need."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[object]] = []
        self.ended: list[str] = []
        self.refusal = "not today"
        self.access = FakeAccess()
        self.before_export: Callable[[], None] = lambda: None
        self.after_export: Callable[[], None] = lambda: None

    def status(self) -> object:
        return ClientPage((), 1, 2)

    def clients(self, **asked: object) -> object:
        """What differs from the defaults."""
        defaults = {"", 1000}
        return {name: value for name, value in asked.items() if value not in defaults}

    def client(self, client_id: str) -> object:
        if client_id == "nobody":
            raise NotThere("there is no such client")
        return {"client_id": client_id}

    def kick(self, client_id: str, delete_session: bool) -> object:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def cluster_status(self) -> object:
        raise OperationError(self.refusal)

    async def cluster_leave(self, say: Say) -> object:
        say("one")
        say("two")
        return await self.kick("", False)

    def cluster_forget(self, node: str) -> object:
        return {}[node]

    async def store_export(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(3):
                self.before_export()
                yield b"x" * 70_000
            self.after_export()
        finally:
            self.ended.append("export")
