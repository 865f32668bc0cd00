"""How a client is found in a list of users, and what the registry has of one."""

import json
from typing import Any, Final

from mhub.auth.contract import is_plain
from mhub.core.authentication import Claim

BY: Final = ("username", "client_id", "both")


def entry_name(claim: Claim, by: str) -> str:
    """The name that a client is looked up by: user name, client id, or USER@CLIENT; "": none.

    What is found is the identity, whole: `a@b` cannot be mistaken for the user `a`.
    """
    user, client_id = claim.username or "", claim.principal.client_id
    if by == "username":
        return user
    if not is_plain(client_id):
        return ""
    if by == "client_id":
        return client_id
    return f"{user}@{client_id}" if user and client_id else ""


def user_entry(hub: Any, name: str) -> dict[str, Any] | None:
    """What the registry has of a user."""
    entry = hub.registry.get("user/" + name)
    return parse_entry(entry.value) if entry is not None else None


def parse_entry(value: str) -> dict[str, Any]:
    """What an entry of the registry says; one that is damaged must not let anybody in."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"locked": True}


def tenant_of(entry: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Tenant and attributes of a user of the registry."""
    tenant = entry.get("tenant")
    attributes = entry.get("attributes")
    found = attributes.items() if isinstance(attributes, dict) else ()
    return (
        tenant if isinstance(tenant, str) else "",
        {name: value for name, value in found if isinstance(value, str)},
    )
