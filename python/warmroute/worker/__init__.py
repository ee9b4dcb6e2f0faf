"""Workers and their lanes: what is known of each, whether it is well, and the load that the router has put on it."""

from warmroute.worker.circuit import Circuit, CircuitState, Sign
from warmroute.worker.spec import (
    LARGEST_COUNT,
    LaneKey,
    LoadReport,
    Rates,
    WorkerFacts,
    WorkerId,
    WorkerKey,
    WorkerSpec,
    WorkerStatus,
    default_name,
)
from warmroute.worker.table import DRAINING_REASON, WorkerTable
from warmroute.worker.worker import REPORT_MAX_AGE_S, Booking, Lane, Load, Worker

__all__ = [
    "DRAINING_REASON",
    "LARGEST_COUNT",
    "REPORT_MAX_AGE_S",
    "Booking",
    "Circuit",
    "CircuitState",
    "Lane",
    "LaneKey",
    "Load",
    "LoadReport",
    "Rates",
    "Sign",
    "Worker",
    "WorkerFacts",
    "WorkerId",
    "WorkerKey",
    "WorkerSpec",
    "WorkerStatus",
    "WorkerTable",
    "default_name",
]
