"""The process as the system sees it: memory, CPU, descriptors, collections of garbage.

Reading takes some 30 µs, whatever the number of connections: open descriptors are not listed, the
size of their directory is asked for, which is their number since Linux 6.2.
"""

import gc
import os
import resource
from dataclasses import dataclass
from typing import Final

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessNumbers:
    cpu_s: float  # of user and system, since the start
    resident_bytes: int
    virtual_bytes: int
    open_files: int | None  # None: this kernel does not tell cheaply
    max_open_files: int | None  # None: any number
    gc_collections: tuple[int, ...]  # of each generation
    gc_collected: tuple[int, ...]  # objects
    gc_uncollectable: tuple[int, ...]


def read_process() -> ProcessNumbers:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    virtual, resident = _memory()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    generations = gc.get_stats()
    return ProcessNumbers(
        cpu_s=round(usage.ru_utime + usage.ru_stime, 6),
        resident_bytes=resident,
        virtual_bytes=virtual,
        open_files=_open_files(),
        max_open_files=None if most == resource.RLIM_INFINITY else most,
        gc_collections=tuple(each["collections"] for each in generations),
        gc_collected=tuple(each["collected"] for each in generations),
        gc_uncollectable=tuple(each["uncollectable"] for each in generations),
    )


def start_time() -> float:
    """When the process began, as a time of day; 0: it is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            began = float(file.read().rpartition(b")")[2].split()[19]) / TICKS
        with open("/proc/stat", "rb") as file:
            for line in file:
                if line.startswith(b"btime "):
                    return round(float(line.split()[1]) + began, 2)
    except (OSError, ValueError, IndexError):
        pass
    return 0.0


def _memory() -> tuple[int, int]:
    try:
        with open("/proc/self/statm", "rb") as file:
            virtual, resident = file.read().split()[:2]
    except OSError:
        return 0, 0
    return int(virtual) * PAGE, int(resident) * PAGE


def _open_files() -> int | None:
    try:
        return os.stat("/proc/self/fd").st_size or None
    except OSError:
        return None
