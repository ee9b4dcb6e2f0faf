"""How long, how much, and from which seed."""

import argparse
import secrets
from dataclasses import dataclass
from pathlib import Path

# A shorter run has no time for an engine to come back.
SHORTEST_S = 10.0

# The router's patience, far below its defaults, so that each of its time-outs is reached many times in a run.
CONNECT_TIMEOUT_S = 2.0
FIRST_BYTE_TIMEOUT_S = 4.0
IDLE_TIMEOUT_S = 3.0
QUEUE_TIMEOUT_S = 5.0
MAX_ATTEMPTS = 3
POOL_IDLE_S = 2.0
MAX_BODY_BYTES = 1 << 20
# So few that the queue fills and overflows when some workers are away.
MAX_REQUESTS = 3
QUEUE_SIZE = 8

# The queue, then attempts that each use up their time, then a stream of some seconds, which a stopped engine may hold
# up; what takes longer hangs.
BOUND_S = QUEUE_TIMEOUT_S + MAX_ATTEMPTS * (CONNECT_TIMEOUT_S + FIRST_BYTE_TIMEOUT_S) + 20.0


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """One run."""

    seconds: float
    seed: int
    engines: int = 5
    liars: int = 3
    clients: int = 16
    json: bool = False
    log: Path | None = None
    router_flags: tuple[str, ...] = ()


def read_options(words: list[str] | None = None) -> ChaosOptions:
    """From the command line; ends the process where it cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long faults and clients go on (300)")
    parser.add_argument("--seed", type=int, help="where everything follows from (default: a new one, which is shown)")
    parser.add_argument("--engines", type=int, default=5, help="emulated engines (5)")
    parser.add_argument("--liars", type=int, default=3, help="workers that lie (3)")
    parser.add_argument("--clients", type=int, default=16, help="clients at once (16)")
    parser.add_argument("--json", action="store_true", help="write the result as JSON to standard output")
    parser.add_argument("--log", type=Path, help="file for the router's log (default: a temporary one)")
    parser.add_argument(
        "--router-flag", action="append", default=[], metavar="FLAG", help="a word for `warmroute serve`"
    )
    given = parser.parse_args(words)
    if given.seconds < SHORTEST_S or given.engines < 2 or given.clients < 1 or given.liars < 0:
        parser.error(f"at least {SHORTEST_S:g} seconds, two engines and one client are needed")
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    flags = tuple(given.router_flag)
    return ChaosOptions(given.seconds, seed, given.engines, given.liars, given.clients, given.json, given.log, flags)
