"""How a log is read: what `warmroute replay` and `warmroute anonymize` can be told of it."""

import sys
from dataclasses import dataclass

from warmroute.config import check_range, option
from warmroute.errors import ConfigError, ModelAssetError
from warmroute.request_log import BLOCK_TOKENS, BYTES_PER_TOKEN, FORMATS, Blocking, LogReading
from warmroute.request_log.mooncake import BLOCK_TOKENS as MOONCAKE_BLOCK_TOKENS
from warmroute.tokenizer import Dialect, LocalTokenizer, find_assets

_TOLD_EVERY = 1_000

LOG_EXAMPLES = """\
log formats, one request a line, packed by gzip or not ('-' is standard input); the first lines tell which it is:

  bodies      {"timestamp": "2026-02-13T11:33:33Z", "body": {"model": "m", "messages": [...]},
               "usage": {"completion_tokens": 90}}
              OpenAI's chat, completions and responses or Anthropic's messages. Times: timestamp, time, ts,
              created_at; ISO 8601, or seconds or milliseconds since 1970. The body may be in body, request or
              request_body, as an object or a text, or be the line itself. response or usage tell lengths.
  vllm        INFO 07-21 09:12:44 [logger.py:41] Received request chatcmpl-1: prompt: '...', params: ...
              vllm serve --enable-log-requests; since 0.11.1 with VLLM_LOGGING_LEVEL=DEBUG.
              --enable-log-outputs tells the answers' lengths; --max-log-len must not be set.
  litellm     {"startTime": 1771000000.1, "endTime": ..., "messages": [...], "completion_tokens": 88, ...}
              StandardLoggingPayload, or rows of the spend logs with store_prompts_in_spend_logs: true.
  mooncake    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
  dynamo      {"timestamp": 49492, "event": {"schema": "dynamo.request.trace.v1", ...}}
  anonymized  what 'warmroute anonymize' writes
"""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a person can say of a log."""

    format: str | None = option(
        None,
        "the log's format (default: told from its first lines)",
        choices=[each.name for each in FORMATS],
        metavar="NAME",
    )
    model: str | None = option(None, "take only requests for this model", metavar="NAME")
    tokenizer: str | None = option(
        None,
        "the model's tokenizer, for texts: a folder, a tokenizer.json, a packaged name, or a hub id in this machine's "
        "cache (default: tokens are estimated from bytes)",
        metavar="SOURCE",
    )
    bytes_per_token: float = option(BYTES_PER_TOKEN, "for the estimate: bytes of text in a token", metavar="X")
    block_size: int = option(BLOCK_TOKENS, "tokens in a block; smaller is more exact", metavar="N")
    log_block_size: int = option(
        MOONCAKE_BLOCK_TOKENS, "tokens that an id stands for in Mooncake's format", metavar="N"
    )

    def __post_init__(self) -> None:
        check_range(self, 1, 65_536, "block_size", "log_block_size")
        check_range(self, 0.25, 64.0, "bytes_per_token")

    def blocking(self) -> Blocking:
        """What makes blocks of the log's prompts. Raises ConfigError and ModelAssetError."""
        tokenizer = None if self.tokenizer is None else _tokenizer(self.tokenizer)
        return Blocking(self.block_size, tokenizer, self.bytes_per_token, Dialect.VLLM)


def _tokenizer(source: str) -> LocalTokenizer:
    try:
        return LocalTokenizer.load(find_assets(source, offline=True))
    except ModelAssetError as error:
        raise ConfigError(f"--tokenizer: {error}") from error


def tell_read(requests: int) -> None:
    """Show how far the reading is, to a person."""
    if requests % _TOLD_EVERY == 0 and sys.stderr.isatty():
        sys.stderr.write(f"\r{requests:,} requests read\r")


def tell_broken(command: str, reading: LogReading) -> None:
    """Name the first lines that could not be read, and count all, on standard error."""
    for number, reason in reading.shown:
        sys.stderr.write(f"warmroute {command}: line {number} is left out: {reason}\n")
    if reading.broken > len(reading.shown):
        sys.stderr.write(f"warmroute {command}: {reading.broken - len(reading.shown)} more broken lines are left out\n")
    for reason, count in sorted(reading.left_out.items()):
        sys.stderr.write(f"warmroute {command}: {count} requests are left out: {reason}\n")
