"""`warmroute doctor`: where requests that ought to share a prefix part, what that costs, and what to do about it."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec

from warmroute.cli.doctor_view import print_report
from warmroute.cli.log_options import tell_broken
from warmroute.cli.router_page import DEFAULT_URL, PageRefused, RouterUnreachable, get
from warmroute.cli.router_page import told as told_by_router
from warmroute.cli.simulation_output import STDOUT, add_json_argument, check_writable, write, write_json
from warmroute.config import add_arguments as add_options
from warmroute.config import check_range, from_namespace, option
from warmroute.doctor import DoctorOptions, Logged, Report, ToldReport, diagnose, told
from warmroute.doctor.options import BLOCK_TOKENS, BYTES_PER_TOKEN
from warmroute.doctor.page import page
from warmroute.errors import ConfigError, ModelAssetError
from warmroute.request_log import FORMATS, LogReading, open_bodies
from warmroute.tokenizer import LocalTokenizer, find_assets

_MIB = 2**20
_PAGE = "/warmroute/doctor"
_TOLD_EVERY = 1_000

_EPILOG = f"""\
examples:
  warmroute doctor requests.jsonl                        a report, the most tokens lost first
  warmroute doctor monday.jsonl.gz tuesday.jsonl --tokenizer Qwen/Qwen3-32B
  warmroute doctor session.har --show-text --html report.html
  warmroute doctor requests.jsonl --fail-under 0.9       exit 1 where less than 90% of the possible reuse is had
  warmroute doctor requests.jsonl --suggest 1            a body of the first finding, as it should have been sent
  warmroute doctor --url {DEFAULT_URL}           what a running router has seen

Logs are JSONL, packed by gzip or not ('-' is standard input), of the bodies of OpenAI's chat, completions and
responses or of Anthropic's messages, with or without an envelope; LiteLLM's logs, vLLM's with
--enable-log-requests, OpenTelemetry's spans of generative AI, and HAR files. They are read once, in their order.

Reuse is what one cache without end would find: no routing finds more. A finding is told only where applying its fix
to the log's own bodies saves tokens. Texts are shortened to a few characters unless --show-text is given.

exit codes: 0 done; 1 less reuse than --fail-under asks for; 2 wrong usage, or a log that cannot be read or has no
request; 130 interrupted.
"""


@dataclass(frozen=True, slots=True)
class DoctorCommandOptions:
    """What a person can say of a diagnosis."""

    format: str | None = option(
        None,
        "the log's format (default: told from its first lines)",
        choices=[each.name for each in FORMATS],
        metavar="NAME",
    )
    tokenizer: str | None = option(
        None,
        "the model's tokenizer: a folder, a tokenizer.json, a packaged name, or a hub id in this machine's cache "
        "(default: tokens are estimated from bytes)",
        metavar="SOURCE",
    )
    bytes_per_token: float = option(BYTES_PER_TOKEN, "for the estimate: bytes of text in a token", metavar="X")
    block_size: int = option(BLOCK_TOKENS, "tokens in a block of the engine's cache", metavar="N")
    prefill_rate: float = option(
        DoctorOptions().prefill_tokens_per_s, "prompt tokens that a GPU computes in a second", metavar="TOKENS"
    )
    memory: int = option(512, "MiB that may be used for what is remembered of the log", metavar="MIB")
    show_text: bool = option(False, "show the texts that differ in full")
    html: str | None = option(None, "write a page with the texts side by side", metavar="FILE")
    fail_under: float | None = option(
        None, "exit 1 where less than this part (0 to 1) of the possible reuse is had", metavar="SHARE"
    )
    suggest: int | None = option(
        None, "print a body of the finding with this number as it should have been sent, and nothing else", metavar="N"
    )

    def __post_init__(self) -> None:
        check_range(self, 1, 65_536, "block_size")
        check_range(self, 0.25, 64.0, "bytes_per_token")
        check_range(self, 1.0, 1e9, "prefill_rate")
        check_range(self, 64, 2**20, "memory")
        check_range(self, 0.0, 1.0, "fail_under")
        check_range(self, 1, 1e6, "suggest")

    def diagnosis(self) -> DoctorOptions:
        """The same in the doctor's terms. Raises ConfigError."""
        return DoctorOptions(
            block_tokens=self.block_size,
            bytes_per_token=self.bytes_per_token,
            tokenizer=None if self.tokenizer is None else _tokenizer(self.tokenizer),
            prefill_tokens_per_s=self.prefill_rate,
            memory_bytes=self.memory * _MIB,
            show_text=self.show_text,
            keep_examples=self.suggest is not None,
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("logs", metavar="LOG", nargs="*", help="a log; '-' is standard input; several are read in turn")
    parser.add_argument("--url", metavar="URL", help="ask a running router instead, at its admin address")
    add_options(parser, DoctorCommandOptions)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Diagnose, and tell; 1 where there is less reuse than asked for."""
    # Not from the environment: WARMROUTE_TOKENIZER and the like are meant for a router.
    options = from_namespace(DoctorCommandOptions, arguments)
    if bool(arguments.logs) == (arguments.url is not None):
        raise ConfigError("name a log, or a router with --url, and not both")
    check_writable(arguments.json, options.html)
    if arguments.url is not None:
        return _tell(_asked(arguments.url, options), arguments, options)
    report = _diagnosed(arguments.logs, options)
    if options.suggest is not None:
        return _suggest(report, options.suggest)
    return _tell(told(report), arguments, options)


def _diagnosed(names: list[str], options: DoctorCommandOptions) -> Report:
    diagnosis = options.diagnosis()
    opened = [open_bodies(name, options.format) for name in names]
    report = diagnose(chain.from_iterable(_read(*each) for each in opened), diagnosis, _tell_progress)
    if not report.requests:
        reasons = [reason for reading, _ in opened for _, reason in reading.shown] or list(report.dropped)
        raise ConfigError(f"{', '.join(names)}: no request with a prompt{f'; {reasons[0]}' if reasons else ''}")
    return report


def _read(reading: LogReading, bodies: Iterator[Logged]) -> Iterator[Logged]:
    yield from bodies
    tell_broken("doctor", reading)


def _tell_progress(requests: int) -> None:
    """Show how far the reading is, to a person."""
    if requests % _TOLD_EVERY == 0 and sys.stderr.isatty():
        sys.stderr.write(f"\r{requests:,} requests read\r")


def _tokenizer(source: str) -> LocalTokenizer:
    try:
        return LocalTokenizer.load(find_assets(source, offline=True))
    except ModelAssetError as error:
        raise ConfigError(f"--tokenizer: {error}") from error


def _asked(url: str, options: DoctorCommandOptions) -> ToldReport:
    if options.suggest is not None:
        raise ConfigError("--suggest needs a log: a router keeps no bodies")
    try:
        return told_by_router(get(url, _PAGE), ToldReport, url)
    except PageRefused as error:
        if error.status != 404:
            raise
        raise RouterUnreachable(
            f"the router at {url} has no page {_PAGE}: it is of a version without the live doctor, or this is its "
            "traffic port; log requests and give the log to 'warmroute doctor LOG'"
        ) from error


def _suggest(report: Report, number: int) -> int:
    if number > len(report.findings):
        raise ConfigError(f"there is no finding {number}: there are {len(report.findings)}")
    finding = report.findings[number - 1]
    assert finding.example is not None
    sys.stdout.write(json.dumps(finding.fix.apply(finding.example), ensure_ascii=False, indent=2) + "\n")
    return 0


def _tell(report: ToldReport, arguments: argparse.Namespace, options: DoctorCommandOptions) -> int:
    if options.html is not None:
        write(options.html, page(report, ", ".join(arguments.logs) or arguments.url).encode("utf-8", "replace"))
    if arguments.json is not None:
        write_json(arguments.json, msgspec.to_builtins(report))
    if arguments.json != STDOUT:
        print_report(report)
    if options.fail_under is None or report.reached_share >= options.fail_under:
        return 0
    sys.stderr.write(
        f"warmroute doctor: {report.reached_share:.1%} of the possible reuse is had, "
        f"{options.fail_under:.1%} is asked for\n"
    )
    return 1
