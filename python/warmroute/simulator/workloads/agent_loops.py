"""Agents that work in loops: a tool's result comes back at once, and they begin the next round before a cache has news.

The pods have less room than all agents together need, so every prediction of what is still held can be wrong.
"""

from warmroute.simulator.workload import FleetPlan
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.multi_turn import Conversations
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2, with_capacity
from warmroute.simulator.workloads.single_stage import SingleStage

LOOPS = Conversations(
    applications=12,
    opening=Lengths(2500, 0.4, 500, 6000),
    message=Lengths(600, 0.8, 50, 6000),
    answer=Lengths(120, 0.5, 20, 500),
    turns=(8, 20),
    think_s=0.5,
    rate=2.2,
    duration_s=82.0,
)

TIGHT_PODS = (with_capacity(QWEN_32B_H100_TP2, 240_000),) * 4

AGENT_LOOPS = SingleStage(
    name="agent-loops",
    about="180 agents in loops of tool calls half a second apart, on 4 pods with too little room for all",
    fleet=FleetPlan(TIGHT_PODS),
    traffic=LOOPS,
)
