"""What the router's process uses, over time: a line is fitted to it, and its rise is what has leaked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.router_process import RouterProcess

_EVERY_S = 1.0
# The first part of a run fills caches, pools and the allocator; lines are fitted to the rest.
_WARM_UP = 0.35
# In fewer samples a line shows the load's moods, not a leak: a short run compares only the moments of rest.
_FEWEST = 30


@dataclass(frozen=True, slots=True)
class Usage:
    """At one moment. `rss_mib`: memory; `at`: seconds of the run."""

    at: float
    sockets: int
    files: int
    threads: int
    rss_mib: float
    tasks: int


# Rise over the fitted part, beyond which something leaks: so much, or this share of the mean if that is more. Under
# load the number of requests in flight moves files and tasks about; each leak per fault or request is far more.
TOLERANCE = {
    "sockets": (12.0, 0.5),
    "files": (12.0, 0.5),
    "threads": (3.0, 0.0),
    "rss_mib": (24.0, 0.1),
    "tasks": (12.0, 0.5),
}


@dataclass(slots=True)
class Growth:
    """Samples of the router under load."""

    router: RouterProcess
    samples: list[Usage] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What `check_integrity` said while requests were running."""

    async def watch(self, started_at: float) -> None:
        """Take samples until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            seen = await self.router.inspect()
            self.broken += seen["broken"]
            self.samples.append(usage(self.router.pid, loop.time() - started_at, len(seen["tasks"])))
            await asyncio.sleep(_EVERY_S)

    def rises(self) -> dict[str, float]:
        """How much each has risen since the warm-up, by the fitted line; empty where too little was seen."""
        fitted = self.samples[int(len(self.samples) * _WARM_UP) :]
        if len(fitted) < _FEWEST:
            return {}
        times = [sample.at for sample in fitted]
        return {name: slope(times, [getattr(s, name) for s in fitted]) * (times[-1] - times[0]) for name in TOLERANCE}

    def allowed(self, name: str) -> float:
        """The rise that is no leak."""
        least, share = TOLERANCE[name]
        mean = sum(float(getattr(sample, name)) for sample in self.samples) / max(1, len(self.samples))
        return max(least, share * mean)

    def leaks(self) -> list[str]:
        """What has risen by more than it may."""
        return [
            f"{name} rose by {rise:.1f} after the warm-up, more than {self.allowed(name):.1f}"
            for name, rise in self.rises().items()
            if rise > self.allowed(name)
        ]


def usage(pid: int, at: float, tasks: int) -> Usage:
    """What a process uses now, as Linux says in /proc."""
    process = Path("/proc") / str(pid)
    links = [link for link in map(_target, (process / "fd").iterdir()) if link]
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    sockets = sum(link.startswith("socket:") for link in links)
    return Usage(at, sockets, len(links), int(status["Threads"]), int(status["VmRSS"].split()[0]) / 1024, tasks)


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Of the line with the least squares, per second."""
    mean_time, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - mean_time) * (time - mean_time) for time in times)
    together = sum((time - mean_time) * (value - mean) for time, value in zip(times, values, strict=True))
    return together / spread if spread else 0.0


def _target(link: Path) -> str:
    """Empty where the descriptor was closed meanwhile."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""
