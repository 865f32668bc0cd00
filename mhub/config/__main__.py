"""`python -m mhub.config` prints the reference; `--write FILE` renews it in FILE."""

import sys
from pathlib import Path

from mhub.config.reference import reference, update

if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 3:
        file = Path(sys.argv[2])
        file.write_text(update(file.read_text("utf-8")), "utf-8")
    else:
        print(reference(), end="")
