"""Coverage-guided fuzzing of what reads KV events: any bytes mean the same to the Rust and to its twin in Python.

    python fuzz/kv_event_decode.py [--seconds 60 | -max_total_time=60] [--seed 0] [CRASH_FILE ...]

Without atheris (`pip install atheris`) it damages the golden frames at random instead, which needs nothing installed.
With crash files it only runs those. A crash file goes into the tests once it is understood.
"""

import argparse
import importlib
import importlib.util
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

TESTS = Path(__file__).parent.parent / "tests"
FIXTURES = TESTS / "fixtures" / "kv_event"
sys.path.append(str(TESTS))


def load_check() -> Callable[[Sequence[bytes]], None]:
    """The comparison of the Rust with its twin; with atheris the twin's Python is instrumented for it."""
    name = "kv_event.twin.agreement"
    if importlib.util.find_spec("atheris") is None:
        found = importlib.import_module(name)
    else:
        # Not `instrument_all`: every function of every library took minutes.
        with importlib.import_module("atheris").instrument_imports(include=["kv_event", "warmroute.kv_event"]):
            found = importlib.import_module(name)
    checks: Callable[[Sequence[bytes]], None] = found.check
    return checks


check_agreement = load_check()


def golden_payloads() -> list[bytes]:
    """A batch of each engine release, and small ones of a real server."""
    releases = json.loads((FIXTURES / "kv_event_wire_fixtures.json").read_text())
    payloads = [bytes.fromhex(message[-1]) for release in releases for message in release["live"]]
    for line in (FIXTURES / "vllm-0.32-live-frames.jsonl").read_text().splitlines():
        payload = bytes.fromhex(json.loads(line)["frames_hex"][-1])
        if len(payload) < 1_000:
            payloads.append(payload)
    return payloads


def write_corpus(folder: Path) -> None:
    """The golden payloads as files, from which a fuzzer begins."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, payload in enumerate(golden_payloads()):
        (folder / f"golden-{number}").write_bytes(payload)


def check(payload: bytes) -> None:
    """Raises whatever must not happen."""
    check_agreement([payload])


def damaged(payload: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled, or the end cut off."""
    data = bytearray(payload)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                del data[at : at + rng.randint(1, 9)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 9)]
            case _:
                data = data[: max(at, 1)]
    return bytes(data)


def run_random(seconds: float, seed: int) -> int:
    rng = random.Random(seed)
    payloads = golden_payloads()
    end = perf_counter() + seconds
    runs = 0
    while perf_counter() < end:
        payload = damaged(rng.choice(payloads), rng)
        try:
            check(payload)
        except BaseException:
            path = Path(tempfile.mkstemp(prefix="kv-event-crash-")[1])
            path.write_bytes(payload)
            sys.stderr.write(f"crash: {path}\n")
            raise
        runs += 1
    return runs


def run_atheris(seconds: int, seed: int) -> None:
    """Does not return: libFuzzer ends the process, with a status that says whether anything was found.

    Only the twin is instrumented; the Rust beside it is watched for crashes and disagreement.
    """
    atheris = importlib.import_module("atheris")
    corpus = Path(tempfile.mkdtemp(prefix="kv-event-corpus-"))
    write_corpus(corpus)
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=4096", str(corpus)], check)
    atheris.Fuzz()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", "-max_total_time", type=int, default=60, help="how long to look (60)")
    parser.add_argument("--seed", type=int, default=0, help="of the random generator (0)")
    parser.add_argument(
        "--write-corpus", type=Path, metavar="FOLDER", help="only write the golden frames there, and end"
    )
    parser.add_argument("crashes", nargs="*", type=Path, help="inputs to run once")
    arguments = parser.parse_args(argv)
    if arguments.write_corpus is not None:
        write_corpus(arguments.write_corpus)
        return 0
    for path in arguments.crashes:
        check(path.read_bytes())
    if arguments.crashes:
        return 0
    if importlib.util.find_spec("atheris") is not None:
        run_atheris(arguments.seconds, arguments.seed)
    runs = run_random(arguments.seconds, arguments.seed)
    sys.stdout.write(f"atheris is not installed: {runs} golden frames damaged at random, no crash\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
