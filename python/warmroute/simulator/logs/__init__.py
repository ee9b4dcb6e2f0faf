"""Logs of LLM requests, read in the formats that gateways and engines write, as blocks and as workloads.

    line -> reader -> LoggedRequest -> Blocking -> BlockedRequest -> ReuseCurve, Anonymizer, LoggedWorkload

One file for each format; `formats.py` lists them and tells which a log has.
"""

from warmroute.simulator.logs.anonymize import Anonymizer
from warmroute.simulator.logs.blocks import BLOCK_TOKENS, BYTES_PER_TOKEN, BlockedRequest, Blocking
from warmroute.simulator.logs.formats import FORMATS
from warmroute.simulator.logs.logged_workload import LoggedWorkload, LogSource
from warmroute.simulator.logs.reading import LogReading, check_any, open_log
from warmroute.simulator.logs.requests import LogRequests, blocked_requests, read_all
from warmroute.simulator.logs.reuse_curve import ReuseCurve, reuse_curve

__all__ = [
    "BLOCK_TOKENS",
    "BYTES_PER_TOKEN",
    "FORMATS",
    "Anonymizer",
    "BlockedRequest",
    "Blocking",
    "LogReading",
    "LogRequests",
    "LogSource",
    "LoggedWorkload",
    "ReuseCurve",
    "blocked_requests",
    "check_any",
    "open_log",
    "read_all",
    "reuse_curve",
]
