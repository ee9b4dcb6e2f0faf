"""`warmroute engine`: an emulated vLLM server, for trying and testing without a GPU."""

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import sys

import uvloop

from warmroute import config
from warmroute.emulator import EmulatorOptions, RunningEngine, serve_engine
from warmroute.engine_model import EngineOptions
from warmroute.engine_model.presets import PRESETS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags: the server's, and in a group of their own the modelled engine's."""
    config.add_arguments(parser, EmulatorOptions)
    engine = parser.add_argument_group("modelled engine")
    engine.add_argument(
        "--preset",
        choices=PRESETS,
        help="a known engine, whose figures stand where no flag says another: "
        + "; ".join(f"{preset.name}: {preset.about}" for preset in PRESETS.values()),
    )
    config.add_arguments(engine, EngineOptions)
    parser.add_argument("--json", action="store_true", help="write the line that tells of readiness as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    engine = engine_options(arguments)
    options = config.from_namespace(EmulatorOptions, arguments, engine=engine)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, as_json=arguments.json))
    return 0


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """The engine that the flags ask for: a preset's figures, or the defaults, and over them those that are given."""
    preset = PRESETS[arguments.preset].options if arguments.preset else EngineOptions()
    figures = {name: value for name, value in dataclasses.asdict(preset).items() if value is not None}
    return config.from_namespace(EngineOptions, arguments, file_values=figures)


async def _serve(options: EmulatorOptions, *, as_json: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    async with serve_engine(options) as engine:
        sys.stdout.write(_ready_line(engine, as_json=as_json) + "\n")
        sys.stdout.flush()
        stopped, failed = asyncio.create_task(stop.wait()), asyncio.create_task(engine.failed())
        done, pending = await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()


def _ready_line(engine: RunningEngine, *, as_json: bool) -> str:
    source = engine.kv_event_sources.get("0", {})
    if as_json:
        ready = {
            "url": engine.url,
            "model": engine.model_name,
            "kv_events_endpoint": engine.kv_events_endpoint,
            "kv_replay_endpoint": source.get("replay_endpoint"),
            "pid": os.getpid(),
        }
        return json.dumps(ready)
    events = engine.kv_events_endpoint or "none"
    return f"{engine.model_name} is ready at {engine.url} (KV events: {events}); stop it with Ctrl-C"
