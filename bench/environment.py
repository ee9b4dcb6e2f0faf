"""What a figure was measured on; goes into every result file."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from warmroute import _native

PACKAGES = ("warmroute", "aiohttp", "msgspec", "pyzmq", "tokenizers", "uvloop")


def environment() -> dict[str, Any]:
    """The machine, its load at this moment and the versions of all that takes part, fit for JSON."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": round(os.getloadavg()[0], 2),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version(name) for name in PACKAGES},
        "rustc": _first_line("rustc", "--version"),
        "commit": _first_line(
            "git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"
        ),
        "native_build": _native.__build__,
    }


def spread(samples: list[float]) -> dict[str, float]:
    """Least, median and greatest of repeated measurements, in their own unit."""
    ordered = sorted(samples)
    return {"min": ordered[0], "median": ordered[len(ordered) // 2], "max": ordered[-1], "repeats": len(ordered)}


def distribution(samples: list[float]) -> dict[str, float]:
    """Of many measurements: least, median, 99th percentile and greatest, in their own unit."""
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {**spread(samples), "p99": p99}


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _first_line(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10, cwd=Path(__file__).parent
        )
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return None
    return done.stdout.strip().partition("\n")[0] or None
