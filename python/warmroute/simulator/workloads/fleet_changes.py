"""The conversations of `multi-turn` on fleets that are not equal, or do not stay as they are."""

from warmroute.simulator.workload import FleetPlan, WorkerAdded, WorkerLost
from warmroute.simulator.workloads.multi_turn import TALKS
from warmroute.simulator.workloads.pods import QWEN_32B_A100_TP2, QWEN_32B_H100_TP2
from warmroute.simulator.workloads.single_stage import SingleStage

MIXED_HARDWARE = SingleStage(
    name="mixed-hardware",
    about="the conversations of multi-turn on 2 pods of H100s and 4 of A100s, which take about twice as long",
    fleet=FleetPlan((QWEN_32B_H100_TP2, QWEN_32B_A100_TP2, QWEN_32B_A100_TP2) * 2),
    traffic=TALKS,
)

WORKER_RESTART = SingleStage(
    name="worker-restart",
    about="the conversations of multi-turn on 5 pods, of which one is killed after 40 s and back, empty, after 30 s",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 5, happenings=(WorkerLost(at_s=40.0, worker=0, for_s=30.0),)),
    traffic=TALKS,
)

WORKER_ADDED = SingleStage(
    name="worker-added",
    about="the conversations of multi-turn on 3 pods, joined by a fourth after 35 s",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 3, happenings=(WorkerAdded(at_s=35.0, engine=QWEN_32B_H100_TP2),)),
    traffic=TALKS,
)
