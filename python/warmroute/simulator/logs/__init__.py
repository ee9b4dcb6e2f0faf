"""Logs of LLM requests as workloads of the simulator; how they are read is in `request_log`.

BlockedRequest -> ReuseCurve, Anonymizer, LoggedWorkload
"""

from warmroute.simulator.logs.anonymize import Anonymizer
from warmroute.simulator.logs.logged_workload import LoggedWorkload, LogSource
from warmroute.simulator.logs.requests import LogRequests, blocked_requests, read_all
from warmroute.simulator.logs.reuse_curve import ReuseCurve, reuse_curve

__all__ = [
    "Anonymizer",
    "LogRequests",
    "LogSource",
    "LoggedWorkload",
    "ReuseCurve",
    "blocked_requests",
    "read_all",
    "reuse_curve",
]
