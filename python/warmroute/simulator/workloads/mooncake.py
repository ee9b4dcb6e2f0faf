"""Mooncake's traces: an hour of a large chat service, and multi-turn data sets put together (FAST'25 release).

Recorded times of the conversation trace are rounded to about 3 seconds (1,180 distinct ones in 3,537 s), so its
requests are spread over as much. The whole has 12,031 requests of 12,035 + 343 tokens, and 37.4 % of the prompt tokens
continue a prefix that came before; the synthetic one 3,993 of 15,325 + 149, and 65.1 %.
"""

from functools import partial
from pathlib import Path

from warmroute.simulator.workload import FleetPlan
from warmroute.simulator.workloads.pods import GPT_OSS_120B_H100_TP2
from warmroute.simulator.workloads.recorded import Recorded
from warmroute.simulator.workloads.trace_file import MOONCAKE_BLOCK_TOKENS, BlockTrace, read_block_trace
from warmroute.simulator.workloads.window import Window

_ROUNDED_TO_S = 3.0


def conversation(path: Path, window: Window | None, longest: int) -> BlockTrace:
    """The conversation trace; `longest` is the context of the engines that it is put on, in tokens."""
    requests = read_block_trace(path, MOONCAKE_BLOCK_TOKENS)
    return BlockTrace(requests, MOONCAKE_BLOCK_TOKENS, window, _ROUNDED_TO_S, longest)


def synthetic(path: Path, window: Window | None, longest: int) -> BlockTrace:
    """The synthetic trace, whose times are those of a Poisson process."""
    requests = read_block_trace(path, MOONCAKE_BLOCK_TOKENS)
    return BlockTrace(requests, MOONCAKE_BLOCK_TOKENS, window, longest=longest)


_POD = GPT_OSS_120B_H100_TP2

MOONCAKE_CONVERSATION = Recorded(
    name="mooncake-conversation",
    about="12 minutes of Mooncake's chat service, 3 times as fast, 4 pods of 2 H100s with gpt-oss-120b",
    fleet=FleetPlan((_POD,) * 4),
    file="mooncake_fast25/conversation_trace.jsonl",
    traffic=partial(conversation, window=Window(720.0, speed=3.0), longest=_POD.context_tokens),
)

MOONCAKE_SYNTHETIC = Recorded(
    name="mooncake-synthetic",
    about="9 minutes of Mooncake's multi-turn data sets, 2.5 times as fast, 4 pods of 2 H100s with gpt-oss-120b",
    fleet=FleetPlan((_POD,) * 4),
    file="mooncake_fast25/synthetic_trace.jsonl",
    traffic=partial(synthetic, window=Window(560.0, speed=2.5), longest=_POD.context_tokens),
)
