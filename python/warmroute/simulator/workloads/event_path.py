"""The conversations of `multi-turn` where the router hears of the caches late, or not of everything."""

from warmroute.simulator.workload import EventPath, FleetPlan
from warmroute.simulator.workloads.multi_turn import TALKS
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.single_stage import SingleStage

EVENTS_LATE = SingleStage(
    name="events-late",
    about="the conversations of multi-turn on 4 pods whose KV events come half a second late",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4, event_path=EventPath(delay_s=0.5)),
    traffic=TALKS,
)

EVENTS_LOSSY = SingleStage(
    name="events-lossy",
    about="the conversations of multi-turn on 4 pods, of whose KV events 5 % get lost and are asked for again",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4, event_path=EventPath(loss=0.05)),
    traffic=TALKS,
)
