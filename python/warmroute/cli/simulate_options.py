"""What `warmroute simulate` can be told."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from warmroute.cli.simulation_output import ALL, chosen_policies
from warmroute.config import SHORTEST_S, check_range, option
from warmroute.simulator.comparison import Question
from warmroute.simulator.task import NamedWorkload

# Takes a few seconds, needs no file, and is what most agents and chats look like.
DEFAULT_WORKLOAD = "multi-turn"
DEFAULT_POLICIES = ("random", "round-robin", "warmroute")
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Every option of the command; see each one's help. Raises ConfigError where a value cannot be used."""

    workload: str = option(DEFAULT_WORKLOAD, "a workload's name, or a file in Mooncake's format", metavar="NAME|FILE")
    policy: tuple[str, ...] = option(
        (),
        f"policy to put on it: a name, {ALL}, or package.module:Class for one of your own; may be repeated"
        f" (default: {', '.join(DEFAULT_POLICIES)})",
        metavar="P",
    )
    workers: int | None = option(None, "workers of the fleet (default: the workload's own number)", metavar="N")
    seeds: int = option(1, "how many seeds; each makes the workload anew", metavar="K")
    seed: int = option(1, "the first seed", metavar="FIRST")
    speed: float = option(1.0, "sessions begin so many times as fast", metavar="X")
    duration: float | None = option(
        None, "leave out sessions that begin later than so many seconds in a stage", metavar="S"
    )
    traces: str | None = option(None, "the folder of recorded traces, for workloads made from them", metavar="DIR")
    tuned: bool = option(False, "also try each value of a policy's main setting, and show the best beside the default")
    jobs: int | None = option(None, "simulations at once (default: as many as there are cores)", metavar="N")
    html: str | None = option(None, "write a report with plots, one file that works offline", metavar="FILE")

    def __post_init__(self) -> None:
        check_range(self, 1, _MOST, "workers", "seeds", "jobs")
        check_range(self, 0, 2**63, "seed")
        check_range(self, SHORTEST_S, 1e7, "speed", "duration")

    @property
    def question(self) -> Question:
        """What is to be compared."""
        traces = None if self.traces is None else Path(self.traces)
        source = NamedWorkload(self.workload, self.speed, self.duration, traces)
        seeds = range(self.seed, self.seed + self.seeds)
        return Question(source, self.policies, seeds, self.workers, self.tuned, self.command)

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies to compare, each once, in the order given."""
        return chosen_policies(self.policy or DEFAULT_POLICIES)

    @property
    def at_once(self) -> int:
        """Simulations at once."""
        return self.jobs or os.cpu_count() or 1

    @property
    def command(self) -> str:
        """The command line that asks the same, without what the answer does not depend on."""
        words = ["warmroute", "simulate", "--workload", self.workload]
        for policy in self.policy or DEFAULT_POLICIES:
            words += ["--policy", policy]
        words += [] if self.workers is None else ["--workers", str(self.workers)]
        words += ["--seeds", str(self.seeds), "--seed", str(self.seed)]
        words += [] if self.speed == 1.0 else ["--speed", f"{self.speed:g}"]
        words += [] if self.duration is None else ["--duration", f"{self.duration:g}"]
        words += ["--tuned"] if self.tuned else []
        return shlex.join(words)
