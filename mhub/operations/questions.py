"""What nodes of a cluster may ask each other, and how it is written: a table of operations.

    name, arguments -> checked against the signature -> Operations.NAME(...) -> its result, as JSON

A node of another release may have other arguments: what is not known, or missing, is a BadArgument
there.  Results are read back as what they were; fields that are not known are left out.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from mhub.operations import contract
from mhub.operations.contract import BadArgument, OperationError, Reply, Unavailable
from mhub.operations.operations import Operations


class Question:
    """An operation that other nodes may ask for."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.name = method.__name__
        hints = get_type_hints(method)
        self._result = hints["return"]
        fields = []
        for each in list(inspect.signature(method).parameters.values())[1:]:  # without `self`
            field: tuple[Any, ...] = (each.name, hints[each.name])
            if each.default is not each.empty:
                field = (*field, each.default)
            fields.append(field)
        self._arguments = msgspec.defstruct(
            self.name.title(), fields, kw_only=True, forbid_unknown_fields=True
        )

    async def answer(self, operations: Operations, arguments: Mapping[str, object]) -> bytes:
        try:
            given = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            raise BadArgument(f"{self.name}: {error}") from None
        found = self._method(operations, **msgspec.structs.asdict(given))
        if inspect.isawaitable(found):
            found = await found
        return msgspec.json.encode(found)

    def read(self, data: bytes) -> Any:
        """The result that another node has sent.  Raises OperationError."""
        try:
            return msgspec.json.decode(data, type=self._result)
        except msgspec.DecodeError as error:
            raise Unavailable(f"{self.name}: another release answers otherwise: {error}") from None


METHODS: Final[tuple[Callable[..., Any], ...]] = (
    Operations.status,
    Operations.clients,
    Operations.client,
    Operations.kick,
    Operations.client_subscribe,
    Operations.client_unsubscribe,
    Operations.held,
    Operations.held_page,
    Operations.subscriptions,
    Operations.groups,
    Operations.routes,
    Operations.topics_top,
    Operations.topics_tree,
    Operations.cluster_report,
    Operations.cluster_forget_here,
)

QUESTIONS: Final = {method.__name__: Question(method) for method in METHODS}

ERRORS: Final[dict[str, type[OperationError]]] = {
    name: kind
    for name, kind in vars(contract).items()
    if isinstance(kind, type) and issubclass(kind, OperationError)
}


async def respond(operations: Operations, name: str, arguments: Mapping[str, object]) -> bytes:
    """The answer to another node.  Raises OperationError."""
    question = QUESTIONS.get(name)
    if question is None:
        raise BadArgument(f"this release does not know the question {name!r}")
    return await question.answer(operations, arguments)


def result_of(name: str, reply: Reply) -> Any:
    """What another node has answered.  Raises the error that it has raised, or OperationError."""
    if reply.error:
        raise ERRORS.get(reply.error, OperationError)(reply.text)
    return QUESTIONS[name].read(reply.data)
