"""`python -m mhub …` is the `mhub` command."""

import sys

from mhub.cli import main

if __name__ == "__main__":
    sys.exit(main())
