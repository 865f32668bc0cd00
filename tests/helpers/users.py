"""Password files."""

import base64
from pathlib import Path

from mhub.auth.users import Verifier


def write_users(path: str | Path, **users: Verifier) -> None:
    """A file with users for SCRAM, in the place of what was there."""
    secret = base64.b64encode(bytes(range(32))).decode()
    lines = [f"{name}:{verifier.render()}" for name, verifier in users.items()]
    Path(path).write_text("\n".join([f"decoy-secret = {secret}", *lines]) + "\n", "utf-8")
