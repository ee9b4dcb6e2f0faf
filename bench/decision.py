"""How long does a decision take: from a prompt's token ids to a worker, booked, in fleets of 8, 96 and 1,000 workers?

What is timed is `Router.route` as it serves: hashing, the look-up, a candidate and a cost for each worker looked at,
the choice, the booking, the prediction, metrics. The ids lie in an `array("I")` that has just been written, as by the
tokenizer. Every worker's cache is full. Prompts of several kinds come in random order and are answered at a fixed speed
in virtual time, so that workers are loaded unequally, and what is done once a second (reading block sizes, for example)
falls on as many decisions as it would. `Router.settle` is timed beside it. A decision waits for nothing, so the clock
and the processor's own account of the thread differ by what else runs on the machine.

Other policies of the same router, on the same index and the same prompts, take turns with ours, and with ours made to
look at every worker; each is in a process of its own. The parts are calls of their own, each of which does what the one
before it does, and more: told are the differences of their medians.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.apart import Apart
from bench.decision_fleet import BLOCK_SIZE, Caches, Case, Prompt, Served, Shape, Taken
from bench.environment import distribution, environment, spread
from bench.index_scaling import PLAIN, timed

from warmroute.block import BlockHashes, hash_blocks
from warmroute.policy import POLICIES, Policy
from warmroute.policy.cost_model import CostModelPolicy
from warmroute.router import Decision, Outcome, Refusal
from warmroute.router.lookup import Lookup
from warmroute.router.shortlist import MOST_CONSIDERED, shortlist
from warmroute.worker import Worker

RESULT = Path(__file__).parent / "results" / "decision.json"
OURS = "warmroute"
LONG = "100k"
PARTS = ("hashing", "look-up", "candidates and policy", "booking and prediction")


class LookingAtAll(CostModelPolicy):
    """Our policy, shown every worker however large the fleet."""

    considers_all = True


COMPARED: dict[str, Callable[[], Policy]] = {
    OURS: POLICIES[OURS],
    "warmroute, all looked at": LookingAtAll,
    "least-loaded": POLICIES["least-loaded"],
    "round-robin": POLICIES["round-robin"],
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. decisions: of each policy in each repeat; parts: times that each part is measured."""

    fleets: tuple[int, ...] = (8, 96, 1_000)
    shape: Shape = field(default_factory=Shape)
    warm_up: int = 3_000
    decisions: int = 1_000
    turn: int = 50
    repeats: int = 5
    parts: int = 1_000


QUICK = Scale(
    fleets=(4, 40),
    shape=Shape(blocks_per_worker=1_000, tokens={"100k": 4_000, "8k": 1_600}, prompts=3, new_blocks=5),
    warm_up=50,
    decisions=60,
    turn=20,
    repeats=2,
    parts=10,
)


@dataclass(slots=True)
class Samples:
    """Microseconds of decisions: of each length and case, of each length on the processor, and the median of each
    length in each repeat.
    """

    by_case: dict[tuple[str, Case], list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    medians: dict[str, list[float]] = field(default_factory=dict)
    settled: list[float] = field(default_factory=list)

    def add(self, repeat: Sequence[Taken]) -> None:
        for taken in repeat:
            self.by_case.setdefault((taken.length, taken.case), []).append(taken.us)
            self.cpu.setdefault(taken.length, []).append(taken.cpu_us)
            self.settled += taken.settled_us
        for length in sorted({taken.length for taken in repeat}):
            median = statistics.median(taken.us for taken in repeat if taken.length == length)
            self.medians.setdefault(length, []).append(median)

    def report(self, lengths: Iterable[str]) -> dict[str, Any]:
        return {length: self._of(length) for length in lengths}

    def _of(self, length: str) -> dict[str, Any]:
        """Over all prompts of a length, then by who holds them."""
        of_case = {case: self.by_case[length, case] for case in Case if (length, case) in self.by_case}
        return {
            "all": distribution([us for each in of_case.values() for us in each]),
            "cpu": distribution(self.cpu[length]),
            "by_case": {case.value: distribution(each) for case, each in of_case.items()},
            "median_of_repeats": spread(self.medians[length]),
        }


def measured(workers: int, scale: Scale, seed: int) -> dict[str, Any]:
    """All figures of a fleet of this size."""
    say(f"filling {workers:,} workers with {scale.shape.blocks(workers):,} blocks each")
    caches = Caches(workers, scale.shape, seed)
    with contextlib.ExitStack() as stack:
        served = {
            name: stack.enter_context(Apart(partial(Served, caches, make, seed))) for name, make in COMPARED.items()
        }
        served[OURS].ask(check)
        say("warming up")
        for each in served.values():
            each.ask(decisions, scale.warm_up)
        samples = {name: Samples() for name in COMPARED}
        for repeat in range(scale.repeats):
            say(f"deciding, {repeat + 1} of {scale.repeats}")
            for name, taken in by_turns(served, scale).items():
                samples[name].add(taken)
        say("the parts")
        return {
            "workers": workers,
            "blocks_per_worker": caches.blocks,
            "requests_in_flight": {name: each.ask(in_flight) for name, each in served.items()},
            "memory_bytes": {name: each.ask(memory_bytes) for name, each in served.items()},
            "decision_us": {name: each.report(scale.shape.tokens) for name, each in samples.items()},
            "settle_us": distribution(samples[OURS].settled),
            "parts_us": {length: served[OURS].ask(parts, length, scale.parts) for length in scale.shape.tokens},
        }


def by_turns(served: dict[str, Apart[Served]], scale: Scale) -> dict[str, list[Taken]]:
    """So many decisions of each policy."""
    taken: dict[str, list[Taken]] = {name: [] for name in served}
    for _ in range(0, scale.decisions, scale.turn):
        for name, each in served.items():
            taken[name] += each.ask(decisions, scale.turn)
    return taken


def decisions(served: Served, count: int) -> list[Taken]:
    return [served.decide() for _ in range(count)]


def in_flight(served: Served) -> int:
    return sum(worker.requests for worker in served.router.table)


def memory_bytes(_: Served) -> int:
    """Of this process, with its part of what it shares with the others."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1_024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def parts(served: Served, length: str, count: int) -> dict[str, float]:
    """Medians of microseconds: each call does what the one before it does, and more; their differences are told."""
    prompts = [prompt for prompt in served.caches.prompts if prompt.length == length]
    calls = (hashed, looked_up, explained, routed)
    rows = [[call(served, served.rng.choice(prompts)) for call in calls] for _ in range(count)]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    return {part: after - before for part, before, after in zip(PARTS, [0.0, *medians[:-1]], medians, strict=True)}


def hashed(_: Served, prompt: Prompt) -> float:
    ids = array("I", prompt.ids)
    return timed(lambda: hash_blocks(ids, BLOCK_SIZE, PLAIN))


def looked_up(served: Served, prompt: Prompt) -> float:
    """Hashing included."""
    router, now, request = served.router, served.now, prompt.request()
    workers = list(router.table)

    def shorten(hashes: Mapping[int, BlockHashes]) -> Sequence[Worker]:
        return shortlist(workers, hashes, router.index, router.table, now)

    shortening = shorten if len(workers) > MOST_CONSIDERED else None
    return timed(lambda: Lookup(request, workers, router.index, router.block_sizes, {}, now, None, shortening))


def explained(served: Served, prompt: Prompt) -> float:
    """A decision that is neither booked nor entered."""
    request = prompt.request()
    return timed(lambda: served.router.explain(request, served.now, served.rng))


def routed(served: Served, prompt: Prompt) -> float:
    """A whole decision, whose client leaves at once."""
    request, made = prompt.request(), list[Decision | Refusal]()
    us = timed(lambda: made.append(served.router.route(request, served.now, served.rng)))
    (decision,) = made
    assert isinstance(decision, Decision)
    served.withdraw(decision)
    served.router.settle(decision, Outcome(completed=False, worker_failed=False, ended_at=served.now))
    return us


def check(served: Served) -> None:
    """Assert that the decision on each prompt rests on what was stored of it."""
    for prompt in served.caches.prompts:
        decision = served.router.explain(prompt.request(), served.now, served.rng)
        assert isinstance(decision, Decision)
        found = {each.lane.key: each.overlap.blocks for each in decision.candidates}
        assert found == {lane: prompt.held.get(lane, 0) for lane in found}, prompt.case
        deepest = max(prompt.held.values(), default=0)
        assert max(found.values()) == deepest, "the holder of most was not looked at"


def measure(seed: int, scale: Scale) -> dict[str, Any]:
    """All of it, as one object."""
    started = environment()
    fleets = [measured(workers, scale, seed) for workers in scale.fleets]
    of_long = {str(fleet["workers"]): fleet["decision_us"][OURS][LONG]["all"] for fleet in fleets}
    return {
        "question": "how long does a decision take, everything from token ids to decision included?",
        "decision_us_p50": {workers: found["median"] for workers, found in of_long.items()},
        "decision_us_p99": {workers: found["p99"] for workers, found in of_long.items()},
        "decision_us_max": {workers: found["max"] for workers, found in of_long.items()},
        "prompt_tokens": dict(scale.shape.tokens),
        "block_size": BLOCK_SIZE,
        "seconds_between_requests_of_a_worker": scale.shape.gap_s,
        "decisions": scale.decisions,
        "repeats": scale.repeats,
        "seed": seed,
        "fleets": fleets,
        "environment": started,
        "load_1min_at_the_end": round(os.getloadavg()[0], 2),
    }


def show(result: dict[str, Any]) -> Iterator[str]:
    """A line for each fleet, for people."""
    for fleet in result["fleets"]:
        for length, found in fleet["decision_us"][OURS].items():
            figures = " ".join(f"{name} {found['all'][name]:.0f}" for name in ("median", "p99", "max"))
            split = ", ".join(f"{part} {us:.0f}" for part, us in fleet["parts_us"][length].items())
            yield f"{fleet['workers']:,} workers, {length} tokens: {figures} us ({split})"


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, write the result down, show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it works; writes no result")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help=f"where the result goes (default: {RESULT.name})")
    options = parser.parse_args()
    result = measure(options.seed, QUICK if options.quick else Scale())
    if result["environment"]["native_build"] != "release":
        say("this is a debug build, its figures mean nothing; run: make build")
    out = options.out or (None if options.quick else RESULT)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
        say(f"wrote {out}")
    print(json.dumps(result) if options.json else "\n".join(show(result)))


if __name__ == "__main__":
    main()
