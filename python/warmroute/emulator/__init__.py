"""An emulated vLLM server: the engine model in real time behind vLLM's HTTP API, metrics and KV events."""

from warmroute.emulator.options import EmulatorOptions
from warmroute.emulator.server import RunningEngine, serve_engine

__all__ = ["EmulatorOptions", "RunningEngine", "serve_engine"]
