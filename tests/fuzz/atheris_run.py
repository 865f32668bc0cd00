"""Fuzzing guided by coverage, for a bounded time: `python -m tests.fuzz.atheris_run [TARGET ...]`.

    --seconds 30    for each target; without targets, all of them

Needs atheris (`pip install atheris`), which watches the pure build from inside.  It starts from the
corpus and the bank of packets.  What it learns is kept in build/fuzz/TARGET, so that the next run
goes on from there; a finding is written there as well, named crash-…, and belongs into
tests/fuzz/corpus/TARGET, under a name that says what it is, once it is understood.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parents[2] / "build" / "fuzz"


def main() -> int:
    options = _parse(sys.argv[1:])
    if options.inside:
        _fuzz(options.inside, options.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    failed = []
    for target in options.targets or TARGETS:
        if target not in TARGETS:
            sys.exit(f"no target {target!r}; there are {', '.join(TARGETS)}")
        print(f"\n== {target}, {options.seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz.atheris_run", "--inside", target]
        if subprocess.run([*command, "--seconds", str(options.seconds)]).returncode:
            failed.append(target)
    print(f"\nfindings: {', '.join(failed)}, in {KEPT}" if failed else "\nno findings")
    return 1 if failed else 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="for each target (30)")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    return parser.parse_args(argv)


def _fuzz(name: str, seconds: int) -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is missing: pip install atheris")

    from tests.fuzz.sources import only_sources

    only_sources()
    with atheris.instrument_imports(include=["mhub"]):
        from tests.fuzz import corpus
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    kept = KEPT / name
    kept.mkdir(parents=True, exist_ok=True)
    for _, data in corpus.seeds(name):
        (kept / hashlib.sha1(data).hexdigest()).write_bytes(data)

    def run(data: bytes) -> None:
        target(data)

    bounds = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=4096"]
    quiet = ["-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={kept}/"]
    atheris.Setup([sys.argv[0], *bounds, *quiet, str(kept)], run)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
