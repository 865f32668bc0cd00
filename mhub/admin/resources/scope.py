"""Whether this node is asked, or all of them: a parameter that many endpoints have."""

from typing import Final

SCOPES: Final = ("cluster", "node")

SCOPE: Final = (
    "`cluster`: of all nodes; `node`: of this one alone. Without a cluster both are the same."
)


def everywhere(scope: str) -> bool:
    return scope == "cluster"
