"""`python -m mhub.admin`: the reference of the API, or with --json its OpenAPI document.

`--write FILE` puts the reference between the marks in FILE.
"""

import json
import sys
from pathlib import Path

from mhub.admin.openapi import document
from mhub.admin.reference import reference, update
from mhub.admin.resources import ENDPOINTS


def main(argv: list[str]) -> int:
    made = document(ENDPOINTS)
    if argv[:1] == ["--write"] and len(argv) == 2:
        path = Path(argv[1])
        path.write_text(update(path.read_text("utf-8"), made), "utf-8")
    elif argv == ["--json"]:
        print(json.dumps(made, indent=2))
    elif not argv:
        print(reference(made))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
