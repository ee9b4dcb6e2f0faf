"""`warmroute replay`: what prefix-aware routing would give the traffic in a log, on fleets of several sizes."""

import argparse
import dataclasses
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from warmroute.cli.log_options import LOG_EXAMPLES, LogOptions, tell_broken, tell_read
from warmroute.cli.replay_view import print_replay
from warmroute.cli.simulate_progress import shown
from warmroute.cli.simulation_output import (
    ALL,
    STDOUT,
    add_json_argument,
    check_writable,
    chosen_policies,
    end_as_by_interrupt,
    tell_failed,
    write,
    write_json,
)
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace, option
from warmroute.engine_model.presets import PRESETS
from warmroute.errors import ConfigError
from warmroute.request_log import open_log
from warmroute.simulator.comparison import Question, Values, tasks
from warmroute.simulator.logs import LogRequests, read_all
from warmroute.simulator.many import RunFailed, Watcher
from warmroute.simulator.replay import POLICIES, ReplayPlan, as_one_comparison, replay
from warmroute.simulator.report import page

_WORKERS = "2,4,8"
_MOST_WORKERS = 1_024

_ENGINES = "\n".join(f"  {preset.name:<24}  {preset.about}" for preset in PRESETS.values())
_EPILOG = f"""\
examples:
  warmroute replay requests.jsonl.gz                           2, 4 and 8 workers, four policies
  warmroute replay vllm.log --tokenizer Qwen/Qwen3-32B --workers 2-8 --ttft-p90 0.5
  warmroute replay litellm.jsonl --closed-loop --engine llama-3.1-8b-h100
  warmroute replay requests.jsonl --speed 4                    the same requests, four times as fast
  warmroute replay shared.jsonl --policy warmroute --policy dynamo --json result.json --html report.html
  warmroute anonymize requests.jsonl -o shared.jsonl           takes the texts out, for a replay elsewhere

Requests come at the log's times, and answers are as long as logged. What a client sends back of an answer is found in
the engine's cache where the log names sessions; else it counts as new text. The engines are modelled step by step: the
times are those of the engine that --engine names, not of this machine. Nothing of a prompt is kept but hashes.

{LOG_EXAMPLES}
engines:
{_ENGINES}

exit codes: 0 done; 1 a simulation failed; 2 wrong usage, or a log that cannot be read or has no request; 130
interrupted.
"""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What a log is put on."""

    workers: str = option(_WORKERS, "sizes of fleets: 2,4,8 or 2-8", metavar="N,N|N-N")
    policy: tuple[str, ...] = option(
        (),
        f"policy to compare: a name, {ALL}, or package.module:Class for one of your own; may be repeated (default: "
        f"{', '.join(POLICIES)}); 'warmroute simulate --list' tells them",
        metavar="NAME",
    )
    engine: str = option(next(iter(PRESETS)), "the engine of each worker", choices=tuple(PRESETS), metavar="NAME")
    speed: float = option(1.0, "how many times as fast the requests come", metavar="X")
    closed_loop: bool = option(
        False, "a request waits for the answer before it in its session, where the log names one"
    )
    ttft_p90: float = option(1.0, "wanted: nine of ten first tokens within so many seconds", metavar="S")
    limit: int = option(10_000, "requests to take from the log's beginning; 0: all", metavar="N")
    jobs: int | None = option(None, "simulations at once (default: one for each core)", metavar="N")
    html: str | None = option(None, "write a page with tables and plots", metavar="FILE")

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies to compare, each once, in the order given."""
        return chosen_policies(self.policy or POLICIES)

    def plan(self, command: str) -> ReplayPlan:
        """Raises ConfigError."""
        if self.limit < 0:
            raise ConfigError(f"limit must not be negative, not {self.limit}")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"jobs must be at least 1, not {self.jobs}")
        return ReplayPlan(
            workers=sizes(self.workers),
            policies=self.policies,
            engine=self.engine,
            speed=self.speed,
            closed_loop=self.closed_loop,
            ttft_p90_s=self.ttft_p90,
            command=command,
        )


def sizes(text: str) -> tuple[int, ...]:
    """`2,4,8` or `2-8`, or both mixed. Raises ConfigError."""
    found: list[int] = []
    for part in text.split(","):
        least, dash, most = part.strip().partition("-")
        if not least.isdecimal() or (dash and not most.isdecimal()) or len(part) > 20:
            raise ConfigError(f"workers must be like 2,4,8 or 2-8, not '{text}'")
        first, last = int(least), int(most) if dash else int(least)
        if not 1 <= first <= last <= _MOST_WORKERS:
            raise ConfigError(f"workers must lie between 1 and {_MOST_WORKERS}, the smaller number first: '{text}'")
        found.extend(range(first, last + 1))
    return tuple(found)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("log", metavar="LOG", help="the log; '-' is standard input")
    add_options(parser, ReplayOptions)
    add_options(parser, LogOptions)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay, and show; 1 where a simulation failed."""
    # Not from the environment: WARMROUTE_POLICY and the like are meant for a real router.
    options, log_options = from_namespace(ReplayOptions, arguments), from_namespace(LogOptions, arguments)
    plan = options.plan(_command(arguments.log, options, log_options))
    check_writable(arguments.json, options.html)
    end_as_by_interrupt()
    log = _read(arguments.log, log_options, options.limit or None)
    tell_broken("replay", log.reading)
    try:
        with tempfile.TemporaryDirectory(prefix="warmroute-replay-") as folder:
            result = replay(log, plan, Path(folder), jobs=options.jobs, watcher_for=_watched)
    except RunFailed as error:
        return tell_failed("replay", error)
    _tell(result, arguments.json, options.html)
    return 0


def _command(log: str, *given: object) -> str:
    """The command line that asks the same, without what the answer does not depend on."""
    words = ["warmroute", "replay", log]
    for options in given:
        for field in dataclasses.fields(options):  # type: ignore[arg-type]
            value = getattr(options, field.name)
            if value == field.default or field.name in ("jobs", "html"):
                continue
            flag = "--" + field.name.replace("_", "-")
            for each in value if isinstance(value, tuple) else (value,):
                words += [flag] if each is True else [flag, f"{each:g}" if isinstance(each, float) else str(each)]
    return shlex.join(words)


def _read(name: str, options: LogOptions, limit: int | None) -> LogRequests:
    blocking = options.blocking()
    reading, requests = open_log(name, options.format, options.log_block_size)
    return read_all(reading, requests, blocking, limit=limit, model=options.model, told=tell_read)


@contextmanager
def _watched(question: Question) -> Iterator[Watcher]:
    fleet = "1 worker" if question.workers == 1 else f"{question.workers} workers"
    names = [f"{fleet}: {task}" for task in tasks(question)]
    with shown(Console(stderr=True), names) as watcher:
        yield watcher


def _tell(result: Values, json_path: str | None, html_path: str | None) -> None:
    if html_path is not None:
        write(html_path, page(as_one_comparison(result)).encode())
    if json_path is not None:
        write_json(json_path, result)
    if json_path != STDOUT:
        print_replay(result)
