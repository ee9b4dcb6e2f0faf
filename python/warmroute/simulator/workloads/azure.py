"""Azure's traces of two services, coding and conversation, on one afternoon in 2023: lengths and times, no contents.

So no two prompts have anything in common here: what a router must not do is harm. (Azure/AzurePublicDataset,
AzureLLMInferenceTrace_code.csv and _conv.csv; CC-BY; Patel et al., "Splitwise", ISCA 2024.) Coding: 8,819 requests of
2,048 + 28 tokens in 57 minutes, in waves; conversation: 19,366 of 1,155 + 211 in 58 minutes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from warmroute.errors import ConfigError
from warmroute.simulator.tokens import Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.lines import read_lines
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.recorded import Recorded
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.window import Window

_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
# "2023-11-16 18:17:03.9799600": the seventh digit is more than a datetime takes.
_TIME_CHARS = 26


@dataclass(frozen=True, slots=True)
class SizedRequest:
    """A recorded request: a time in seconds, lengths in tokens."""

    at_s: float
    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class SizeTrace:
    """Recorded requests of which only the sizes are known. `window`: the part that is played."""

    requests: list[SizedRequest] = field(repr=False)
    window: Window

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "times"))
        for number, (at_s, request) in enumerate(self.window.cut(self.requests, rng)):
            prompt = Text(seed_of(seed, "prompt", number), request.prompt_tokens)
            yield Session(at_s, (Turn(prompt, Text(seed_of(seed, "answer", number), request.answer_tokens)),))


def read_sizes(path: Path) -> list[SizedRequest]:
    """The requests of a file in Azure's format. ConfigError names the line that is wrong."""
    lines = list(read_lines(path))
    if not lines or lines[0][1].strip() != _HEADER:
        raise ConfigError(f"{path} must begin with the line {_HEADER}")
    if len(lines) == 1:
        raise ConfigError(f"{path} has no requests: nothing follows its first line")
    rows = [_row(path, number, line) for number, line in lines[1:]]
    earliest = min(at for at, _, _ in rows)
    return [SizedRequest((at - earliest).total_seconds(), prompt, answer) for at, prompt, answer in rows]


def _row(path: Path, number: int, line: str) -> tuple[datetime, int, int]:
    try:
        at, prompt, answer = line.strip().split(",")
        return datetime.fromisoformat(at[:_TIME_CHARS]), max(1, int(prompt)), max(1, int(answer))
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: not a time and two numbers: {error}") from error


def _traffic(path: Path, window: Window) -> SizeTrace:
    return SizeTrace(read_sizes(path), window)


AZURE_CODE = Recorded(
    name="azure-code",
    about="17 minutes of Azure's coding service, 5 times as fast, 4 pods: nothing to reuse",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    file="azure_llm/AzureLLMInferenceTrace_code.csv",
    traffic=partial(_traffic, window=Window(1000.0, speed=5.0)),
)

AZURE_CONVERSATION = Recorded(
    name="azure-conversation",
    about="9 minutes of Azure's chat service, 6.5 times as fast, 4 pods: nothing to reuse",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    file="azure_llm/AzureLLMInferenceTrace_conv.csv",
    traffic=partial(_traffic, window=Window(520.0, speed=6.5)),
)
