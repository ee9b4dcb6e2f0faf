"""`warmroute anonymize`: a log without its texts, for `warmroute replay` on another machine."""

import argparse
import gzip
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from warmroute.cli.log_options import LOG_EXAMPLES, LogOptions, tell_broken, tell_read
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.errors import ConfigError
from warmroute.request_log import check_any, open_log
from warmroute.simulator.logs import Anonymizer, blocked_requests

_STDOUT = "-"
_SALT_BYTES = 32

_EPILOG = f"""\
examples:
  warmroute anonymize requests.jsonl.gz -o shared.jsonl.gz
  warmroute anonymize requests.jsonl -o shared.jsonl --tokenizer Qwen/Qwen3-32B      real tokens, not estimates
  journalctl -u vllm -o short-iso | warmroute anonymize - -o shared.jsonl
  warmroute anonymize gateway-1.jsonl -o 1.jsonl --salt "$SALT"    the same ids in the files of several gateways
  warmroute replay shared.jsonl

What is written: for each request the time since the first one in milliseconds, lengths in tokens, an id for each block
of its prompt (a keyed hash of the block and all before it), a number for its session. No text, model, header, key, user
or date. Who has the salt can test whether a text that he knows is in the file: the default is random and kept nowhere.
Equal prompts have equal ids, which is what the file is for. It is in Mooncake's format, with some keys more.

{LOG_EXAMPLES}
exit codes: 0 done; 2 wrong usage, or a log that cannot be read or has no request; 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("log", metavar="LOG", help="the log; '-' is standard input")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="where to; packed if it ends in .gz; '-': standard output"
    )
    parser.add_argument("--salt", metavar="TEXT", help="a secret that the ids depend on (default: a random one)")
    parser.add_argument(
        "--keep-times", action="store_true", help="keep the times since 1970, not those since the start"
    )
    add_options(parser, LogOptions)


def run(arguments: argparse.Namespace) -> int:
    """Read, and write line by line."""
    options = from_namespace(LogOptions, arguments)
    if arguments.salt == "":
        raise ConfigError("an empty --salt protects nothing; leave it out for a random one")
    salt = secrets.token_bytes(_SALT_BYTES) if arguments.salt is None else os.fsencode(arguments.salt)
    if arguments.output != _STDOUT and _is_same(arguments.log, arguments.output):
        raise ConfigError(f"{arguments.output} is the log itself; write to another file")
    blocking = options.blocking()
    reading, requests = open_log(arguments.log, options.format, options.log_block_size)
    anonymizer = Anonymizer(salt, arguments.keep_times)
    with _output(arguments.output) as file:
        for line in anonymizer.lines(blocked_requests(reading, requests, blocking, options.model)):
            file.write(line)
            tell_read(reading.requests)
        check_any(reading)
    tell_broken("anonymize", reading)
    sys.stderr.write(f"warmroute anonymize: {reading.requests:,} requests, read as {reading.format.name}\n")
    return 0


def _is_same(log: str, output: str) -> bool:
    return log != _STDOUT and os.path.exists(log) and os.path.exists(output) and os.path.samefile(log, output)


@contextmanager
def _output(name: str) -> Iterator[BinaryIO]:
    """The file to write; of a run that fails nothing is left behind, and what was there before stays."""
    if name == _STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name).expanduser()
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(f"{name} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
