"""Notes that operators leave for each other, with a page of the dashboard."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from mhub.admin.endpoint import Body, Call, endpoint
from mhub.admin.plugins import AdminPlugin

NOTES: list[str] = []


@dataclass(frozen=True)
class Notes:
    notes: tuple[str, ...]
    clients: int  # that the broker has


@endpoint("GET", "/notes")
async def notes(call: Call) -> Notes:
    """List the notes."""
    return Notes(tuple(NOTES), call.operations.status().sessions.total)


@endpoint("POST", "/notes")
async def add_note(call: Call, text: Annotated[str, Body("The note.", longest=200)]) -> Notes:
    """Leave a note."""
    NOTES.append(f"{call.caller.name}: {text}")
    return await notes(call)


PLUGIN = AdminPlugin("notes", "Notes", [notes, add_note], files("mhub_example") / "page.js")
