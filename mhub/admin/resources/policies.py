"""The rules: read, changed, tried, and as a CSV file.

The version of the rules is the revision of the registry: `ETag` of GET, and `If-Match` of changes.
"""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from mhub.access.results import DryRun, InForce, Proposals, RulePage, RulesChanged
from mhub.admin.endpoint import CSV, LINE, Body, Call, Query, Raw, endpoint
from mhub.admin.resources.explain import ACTIONS
from mhub.admin.resources.parts import CURSOR, LIMIT, LONGEST_NOTE, access_of, asked_by
from mhub.operations.contract import BadArgument

ADD: Final = "Rows to add, each a list of its fields."
REMOVE: Final = "Ids of rules to remove."
REPLACE_ALL: Final = "Remove all rules that are not among those that are added."
NOTE: Final = "For people, of each new rule."


@endpoint("GET", "/policies", resource="policies")
async def policies(
    call: Call,
    subject: Annotated[str, Query("Only those about `user:NAME` or `role:NAME`.")] = "",
    topic: Annotated[
        str, Query("Only those whose topic is written so, with * and ?.", longest=256)
    ] = "",
    all_rows: Annotated[
        bool, Query("Also what users and roles are given by their own entries.")
    ] = False,
    cursor: Annotated[str, Query(CURSOR, longest=512)] = "",
    limit: Annotated[int, Query(LIMIT, low=1, high=1000)] = 100,
) -> RulePage:
    """List the rules of the registry.

    `left` is how many more entries there are behind this page; of a search, 1 if there are more.
    """
    found = await access_of(call).rules.search(subject, topic, all_rows, cursor, limit)
    call.etag = found.revision
    return found


@endpoint("GET", "/policies/in-force", resource="policies")
async def policies_in_force(call: Call) -> InForce:
    """Show where the rules are that decide.

    `policy` is `registry`, a file, or empty where access control is off. The rules decide about the
    admin side in any case.
    """
    return access_of(call).in_force()


@endpoint("POST", "/policies/change", resource="policies", codes=(404, 409, 412))
async def change_policies(
    call: Call,
    add: Annotated[list[list[str]], Body(ADD)] = [],  # noqa: B006 (never changed)
    remove: Annotated[list[str], Body(REMOVE)] = [],  # noqa: B006
    replace_all: Annotated[bool, Body(REPLACE_ALL)] = False,
    note: Annotated[str, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = "",
    places: Annotated[list[str], Body("Where the rows of `add` come from, for errors.")] = [],  # noqa: B006
) -> RulesChanged:
    """Add and remove rules, all of it or nothing.

    The change is in force when the answer comes.
    """
    done = await access_of(call).rules.change(
        add, remove, replace_all, note, places, call.if_match, **asked_by(call)
    )
    call.etag = done.revision
    return done


@endpoint("GET", "/policies/export", resource="policies", stream=CSV)
async def export_policies(call: Call) -> AsyncGenerator[bytes, None]:
    """Read all rules as a CSV file, with the roles of users and roles."""
    async for text in access_of(call).rules.export():
        yield text.encode()


@endpoint("POST", "/policies/import", resource="policies", codes=(409, 412))
async def import_policies(
    call: Call,
    data: Annotated[bytes, Raw(CSV, "A policy, as docs/policy.md describes it.")],
    replace_all: Annotated[bool, Query("Remove all rules that are not in it.")] = False,
    note: Annotated[str, Query(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = "",
) -> RulesChanged:
    """Add the rules of a CSV file, all of them or none."""
    done = await access_of(call).rules.bring(
        _text(data), replace_all, note, call.if_match, **asked_by(call)
    )
    call.etag = done.revision
    return done


@endpoint("POST", "/policies/dry-run", resource="policies", writes=False, codes=(404, 409))
async def try_policies(
    call: Call,
    add: Annotated[list[list[str]], Body(ADD)] = [],  # noqa: B006
    remove: Annotated[list[str], Body(REMOVE)] = [],  # noqa: B006
    replace_all: Annotated[bool, Body(REPLACE_ALL)] = False,
    csv: Annotated[str, Body("Rows to add, as lines of a CSV file.", longest=1 << 18)] = "",
) -> DryRun:
    """Say what a change of rules would do, and to whom; nothing is changed.

    It covers all topics, not samples of them. What is too long is cut, and the fields `more` say
    how much.
    """
    return await access_of(call).rules_dry_run(add, remove, replace_all, csv)


@endpoint("GET", "/policies/proposals", resource="policies", codes=(404, 409))
async def propose_policies(
    call: Call,
    action: Annotated[str, Query("As for `explain`.", choices=ACTIONS)],
    topic: Annotated[str, Query("The topic, the filter or the resource that was denied.")] = "",
    user: Annotated[str, Query("The user.", longest=256)] = "",
    client: Annotated[str, Query("The client id; alone, of a client of this node.")] = "",
    anonymous: Annotated[bool, Query("A client without a user.")] = False,
    qos: Annotated[int, Query("Of the message.", low=0, high=2)] = 0,
    retain: Annotated[bool, Query("Whether the message is retained.")] = False,
) -> Proposals:
    """Propose rules that would allow what somebody was denied, each with its dry run.

    `add` and `remove` of a proposal are what `policies/change` takes.
    """
    return await access_of(call).propose(action, topic, user, client, anonymous, qos, retain)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadArgument(f"the file is not UTF-8: see byte {error.start}") from None
