"""What is packaged, and what of it is compiled.  The facts about the project are in pyproject.toml.

`pip install .` compiles the modules of `COMPILED` to C with mypyc.  `MHUB_PURE` can change that:

    unset   compile; where that fails (no C compiler, say), tell why and install pure Python.
            `pip install -e .` stays pure: a compiled module would hide the edits of its source
    1       pure Python, nothing is compiled
    0       compile or fail, for those who package or test mhub; `-e` too
"""

import os
import sys
import tempfile
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.errors import CompileError

# All that match are compiled into one library, so that calls between them are C calls.  What is
# listed here imports the standard library and its own kind only: zope.interface does not compile.
# A package's `__init__` stays Python: it holds the package's map and no code worth compiling.
COMPILED = [
    "mhub/wire/*.py",
    "mhub/core/*.py",
    "mhub/net/loop.py",
    "mhub/access/rows.py",
    "mhub/access/trie.py",
    "mhub/access/containment.py",
    "mhub/access/index.py",
    "mhub/bench/load/*.py",
]

# Beside `policies` at the top, which is a link to them, for who looks for them there.
POLICIES = ["access/policies/*.conf", "access/policies/*.csv", "access/policies/examples/*.csv"]

# What the admin listener serves, and `types.d.ts`, which is for the type checker.
DASHBOARD = [f"admin/static/**/*.{suffix}" for suffix in ("html", "js", "css", "svg", "ts")]


def main() -> None:
    switch = os.environ.get("MHUB_PURE", "")
    if switch not in ("", "0", "1"):
        sys.exit(f"MHUB_PURE={switch}: 1 is for pure Python, 0 to compile or fail")
    if switch == "1" or not compiles(sys.argv, switch):
        return package([])
    try:
        check_compiler()
        package(extensions())
    except (CompileError, ImportError, OSError, SystemExit) as problem:
        if switch == "0":
            raise
        # mypyc and setuptools print what failed, which can be long, and exit.
        ended = isinstance(problem, SystemExit)
        why = "compiling failed, as written above" if ended else problem
        say(f"mhub is NOT compiled; it installs as pure Python, which runs slower: {why}")
        package([])


def package(ext_modules: list[Extension]) -> None:
    setup(
        packages=[*find_packages(include=["mhub", "mhub.*"]), "twisted.plugins"],
        # Without this "." twistd does not find the plugin of an editable install.
        package_dir={"": "."},
        package_data={"mhub": ["py.typed", "store/schema/*.sql", *POLICIES, *DASHBOARD]},
        ext_modules=ext_modules,
        zip_safe=False,
    )


def compiles(argv: list[str], switch: str) -> bool:
    """Whether this run is one that compiles: setup.py also runs just to be asked for metadata."""
    editable = any(arg in ("develop", "editable_wheel") for arg in argv)
    built = any(arg.startswith(("bdist", "build", "install")) for arg in argv)
    return built or (editable and switch == "0")


def extensions() -> list[Extension]:
    from mypyc.build import mypycify

    names = sorted(name for pattern in COMPILED for name in glob(pattern))
    modules = [name for name in names if Path(name).name != "__init__.py"]
    # The settings for mypy in pyproject.toml are for `make lint`, and may name plugins.
    options = ["--config-file="]
    found = mypycify([*options, *modules], opt_level="3", debug_level="0", group_name="mhub")
    for extension in found:
        # mypyc sets -Werror; the new warning of a newer compiler is no reason to install pure.
        extension.extra_compile_args = [*extension.extra_compile_args, "-Wno-error"]
    return found


def check_compiler() -> None:
    """Find out in a moment, and with a clear reason, what would fail after a minute of mypyc."""
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler, get_python_inc

    compiler = new_compiler()
    customize_compiler(compiler)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\n")
        try:
            compiler.compile([str(source)], output_dir=directory, include_dirs=[get_python_inc()])
        except CompileError as error:
            needs = "a C compiler and Python's headers (Debian: gcc, libc6-dev, python3-dev)"
            raise CompileError(f"compiling needs {needs}: {error}") from error


def say(text: str) -> None:
    """Tell the user: pip shows what a build prints only when asked to (-v), so use the terminal."""
    print(text, file=sys.stderr)
    try:
        with open("/dev/tty", "w") as terminal:
            print(f"\n{text}", file=terminal)
    except OSError:
        pass


if __name__ == "__main__":
    main()
