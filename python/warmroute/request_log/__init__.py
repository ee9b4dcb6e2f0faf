"""Logs of LLM requests, read in the formats that gateways and engines write, and their prompts as blocks.

    line -> reader -> LoggedRequest -> Blocking -> BlockedRequest

One file for each format; `formats.py` lists them and tells which a log has.
"""

from warmroute.request_log.blocks import BLOCK_TOKENS, BYTES_PER_TOKEN, BlockedRequest, Blocking
from warmroute.request_log.formats import FORMATS
from warmroute.request_log.reading import LogReading, check_any, open_bodies, open_log

__all__ = [
    "BLOCK_TOKENS",
    "BYTES_PER_TOKEN",
    "FORMATS",
    "BlockedRequest",
    "Blocking",
    "LogReading",
    "check_any",
    "open_bodies",
    "open_log",
]
