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

NOISE = ("INFO:", "WARNING:", '"', "#")
KEPT = Path(__file__).resolve().parents[2] / "build" / "fuzz"


def main() -> int:
    options = _parse(sys.argv[1:])
    if options.inside:
        _fuzz(options.inside, options.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    wanted = options.targets or list(TARGETS)
    if unknown := [name for name in wanted if name not in TARGETS]:
        sys.exit(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    failed = [name for name in wanted if not _run(name, options.seconds)]
    print(f"findings: {', '.join(failed)}, in {KEPT}" if failed else "no findings")
    return 1 if failed else 0


def _run(name: str, seconds: int) -> bool:
    """One target in a process of its own, as libFuzzer wants it; whether nothing was found."""
    print(f"{name}, {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz.atheris_run", "--inside", name]
    command += ["--seconds", str(seconds)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if not line.startswith(NOISE):
                print("   ", line, end="", flush=True)
    return process.returncode == 0


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
