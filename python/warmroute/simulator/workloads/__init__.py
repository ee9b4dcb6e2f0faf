"""The workloads that policies are compared on: the published benchmark, real traces, and synthetic ones.

    workload("reference", None).stages(seed=1)
    scaled(workload("claude-code", Path("traces")), speed=2.0, duration_s=300.0)

Each synthetic one asks one question, and is laid out so that a fleet that reuses well has time left and one that reuses
nothing falls behind. Of a long trace a part is played, faster than it was recorded: for the same end, and because a
whole one would take minutes.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from warmroute.errors import ConfigError
from warmroute.simulator.workload import Workload
from warmroute.simulator.workloads.agent_loops import AGENT_LOOPS
from warmroute.simulator.workloads.azure import AZURE_CODE, AZURE_CONVERSATION
from warmroute.simulator.workloads.burst import BURST
from warmroute.simulator.workloads.churn import CHURN
from warmroute.simulator.workloads.claude_code import CLAUDE_CODE
from warmroute.simulator.workloads.cold_giants import COLD_GIANTS
from warmroute.simulator.workloads.event_path import EVENTS_LATE, EVENTS_LOSSY
from warmroute.simulator.workloads.fleet_changes import MIXED_HARDWARE, WORKER_ADDED, WORKER_RESTART
from warmroute.simulator.workloads.hot_prefix import HOT_PREFIX
from warmroute.simulator.workloads.mooncake import MOONCAKE_CONVERSATION, MOONCAKE_SYNTHETIC
from warmroute.simulator.workloads.multi_turn import MULTI_TURN
from warmroute.simulator.workloads.reference import REFERENCE, REFERENCE_37, REFERENCE_2025
from warmroute.simulator.workloads.reuse import Reuse, reuse
from warmroute.simulator.workloads.scaling import scaled
from warmroute.simulator.workloads.single_turn import SINGLE_TURN
from warmroute.simulator.workloads.trace_file import MOONCAKE_BLOCK_TOKENS, trace_file

__all__ = ["WORKLOADS", "Listed", "Reuse", "reuse", "scaled", "trace_file", "workload"]


class Listed(Protocol):
    """A workload in the list: its name, one line about it, and how it is had."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...

    def open(self, traces: Path | None) -> Workload:
        """The workload. `traces` is the folder of recorded traces; ConfigError where one is needed and not there."""


@dataclass(frozen=True, slots=True)
class _Made:
    """One that needs no file."""

    workload: Workload

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def about(self) -> str:
        return self.workload.about

    def open(self, traces: Path | None) -> Workload:
        return self.workload


WORKLOADS: Sequence[Listed] = (
    _Made(REFERENCE),
    _Made(REFERENCE_2025),
    _Made(REFERENCE_37),
    MOONCAKE_CONVERSATION,
    MOONCAKE_SYNTHETIC,
    CLAUDE_CODE,
    AZURE_CODE,
    AZURE_CONVERSATION,
    _Made(HOT_PREFIX),
    _Made(MULTI_TURN),
    _Made(AGENT_LOOPS),
    _Made(COLD_GIANTS),
    _Made(BURST),
    _Made(SINGLE_TURN),
    _Made(CHURN),
    _Made(MIXED_HARDWARE),
    _Made(WORKER_RESTART),
    _Made(WORKER_ADDED),
    _Made(EVENTS_LATE),
    _Made(EVENTS_LOSSY),
)


def workload(name_or_path: str, traces: Path | None, block_tokens: int = MOONCAKE_BLOCK_TOKENS) -> Workload:
    """The workload of this name, or else the one in the file at this path.

    traces: the folder of recorded traces; None where there is none. block_tokens: tokens that one id in a file stands
    for. ConfigError where there is neither such a name nor such a file, or what it needs is not there.
    """
    for listed in WORKLOADS:
        if listed.name == name_or_path:
            return listed.open(traces)
    path = Path(name_or_path)
    if not path.is_file():
        raise ConfigError(_unknown(name_or_path))
    return trace_file(path, block_tokens)


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, [listed.name for listed in WORKLOADS], n=1)
    hint = f"did you mean {close[0]}?" if close else "`warmroute simulate --list` lists them"
    return f"{name} is neither a workload nor a file; {hint}"
