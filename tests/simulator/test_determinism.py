"""Equal arguments give equal bytes, in any process, whatever the order of its sets."""

import hashlib
import json
import os
import subprocess
import sys
from array import array
from dataclasses import fields
from pathlib import Path

import pytest

from simulator.worlds import Talk, played, talks
from warmroute.engine_model import EngineOptions
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.run import simulate
from warmroute.simulator.workload import EventPath, WorkerAdded, WorkerLost
from warmroute.simulator.workloads import scaled, workload

TESTS = Path(__file__).resolve().parents[1]
ENGINE = EngineOptions(block_size=16, num_blocks=200, max_num_batched_tokens=512, max_num_seqs=6)


def told(ledger: Ledger) -> bytes:
    """All that a ledger holds, as bytes."""
    columns = [getattr(part, each.name) for part in (ledger.requests, ledger.gauges) for each in fields(part)]
    flat = [each for column in columns for each in (column if isinstance(column, list) else [column])]
    return b"\n".join(each.tobytes() if isinstance(each, array) else str(each).encode() for each in flat)


def digest(name: str, seed: int) -> str:
    """Of a world with losses, deaths and a newcomer."""
    happenings = [WorkerLost(1.5, 0, for_s=1.0), WorkerAdded(2.0, ENGINE)]
    path = EventPath(delay_s=0.05, loss=0.2)
    sessions = talks(seed, Talk(sessions=20))
    ledger, _ = played(ARMS[name], sessions, [ENGINE] * 3, happenings=happenings, event_path=path)
    return hashlib.sha256(told(ledger)).hexdigest()


def digests() -> dict[str, str]:
    return {name: digest(name, 7) for name in ARMS}


def elsewhere(hash_seed: str) -> dict[str, str]:
    """The digests as another process finds them."""
    code = "import json; from simulator.test_determinism import digests; print(json.dumps(digests()))"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TESTS, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(120)
def test_processes_agree_on_every_policy_to_the_byte() -> None:
    first, second = elsewhere("1"), elsewhere("2")
    assert first == second
    assert first.keys() == ARMS.keys()
    assert len(set(first.values())) > len(ARMS) / 2  # policies do differ


def test_a_process_repeats_itself() -> None:
    assert digest("warmroute", 7) == digest("warmroute", 7)


def test_another_seed_is_another_world() -> None:
    played = scaled(workload("multi-turn", None), duration_s=5.0)
    one, again, other = (told(simulate(played, ARMS["random"], seed).ledger) for seed in (1, 1, 2))
    assert one == again
    assert one != other
