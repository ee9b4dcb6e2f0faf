"""`warmroute demo`: what prefix-aware routing gives, shown on emulated engines."""

import argparse
import asyncio
import signal
import sys

import uvloop

from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.demo import ChildFailed, DemoOptions, show

_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `demo`."""
    add_options(parser, DemoOptions)


def run(arguments: argparse.Namespace) -> int:
    """Show the demo; 1 when a request or a process failed."""
    # Not from the environment: WARMROUTE_POLICY and the like are meant for a real router.
    options = from_namespace(DemoOptions, arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_until_interrupted(options))
        except ChildFailed as error:
            sys.stderr.write(f"warmroute demo: {error}\n")
            return 1


async def _until_interrupted(options: DemoOptions) -> int:
    """`show`, cancelled by the first signal, so that the processes it started are ended before this one."""
    task = asyncio.create_task(show(options))
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if not task.cancelling():  # once: a second Ctrl-C must not cut the cleaning up short
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        return _INTERRUPTED
