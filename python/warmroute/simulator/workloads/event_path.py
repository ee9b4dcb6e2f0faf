"""The loops of `agent-loops` where the router hears of the caches late, or not of everything."""

from warmroute.simulator.workload import EventPath, FleetPlan
from warmroute.simulator.workloads.agent_loops import LOOPS, TIGHT_PODS
from warmroute.simulator.workloads.single_stage import SingleStage

EVENTS_LATE = SingleStage(
    name="events-late",
    about="agent-loops where the pods' KV events come half a second late",
    fleet=FleetPlan(TIGHT_PODS, event_path=EventPath(delay_s=0.5)),
    traffic=LOOPS,
)

EVENTS_LOSSY = SingleStage(
    name="events-lossy",
    about="agent-loops where 5 % of the pods' KV events get lost and have to be asked for again",
    fleet=FleetPlan(TIGHT_PODS, event_path=EventPath(loss=0.05)),
    traffic=LOOPS,
)
