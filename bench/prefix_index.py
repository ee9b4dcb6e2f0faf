"""What do the index's lookups and stores cost at the Python border, what do its blocks weigh, and how does it grow?

A lookup is what a Python caller does with a prompt: token ids in an array -> `hash_blocks` -> `PrefixIndex.match`. The
ids have just been written, as by a tokenizer, and other prompts are looked up in between.
Beside it, in the same run and by turns, Dynamo's `RadixTree.find_matches` is asked for the same prompts, WITHOUT its
hashing. Each call of Dynamo's tree crosses to another thread and back, so the ratio of the two is what callers pay, not
tree against tree; for that reason the floors (one block, nothing stored) are measured, and the ratio without them.
"""

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dynamo import dynamo_tree
from bench.environment import distribution, environment, spread
from bench.index_scaling import BLOCK_SIZE, PLAIN, by_prompt, by_workers, filled, timed
from bench.json_process import JsonProcess
from bench.prompts import Fleet, Prompt, chunks

from warmroute.block import Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

RESULT = Path(__file__).parent / "results" / "prefix_index.json"
KINDS = ("shared", "disjoint")
EVENT_BLOCKS = (16, 32, 256, 1_000)
HEADLINE_EVENT = 32
"""The blocks of an event for the store rate quoted: what a prefill step of a few hundred tokens announces."""

BESIDE_DYNAMO = (
    "dynamo_lookup_us_p50",
    "dynamo_floor_us_p50",
    "lookup_ratio_dynamo_over_warmroute",
    "lookup_ratio_net_of_floors",
    "dynamo_lookup_us_p50_one_core",
    "dynamo_floor_us_p50_one_core",
    "dynamo_store_blocks_per_s",
)

Ids = Sequence[int]
Event = tuple[int | None, Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    small: tuple[int, int, int, int] = (8, 90, 10, 1_000)
    """Workers, prompts of their own, prompts that all hold, blocks of a prompt."""
    large: tuple[int, int, int, int] = (96, 14, 2, 6_250)
    lookups: int = 1_000
    """Of each kind."""
    batch: int = 25
    """Lookups until it is the other's turn."""
    stored_prompts: int = 100
    store_repeats: int = 5
    pairs: int = 10_000_000
    fleets: tuple[int, ...] = (8, 64, 512, 2_048)
    fleet_prompt: int = 1_000
    lengths: tuple[int, ...] = tuple(1_024 * 4**power for power in range(6))
    scaling_repeats: int = 200


QUICK = Scale(
    small=(8, 9, 1, 100),
    large=(12, 2, 1, 625),
    lookups=50,
    stored_prompts=2,
    store_repeats=2,
    pairs=100_000,
    fleets=(8, 16),
    fleet_prompt=100,
    lengths=(1_024, 4_096),
    scaling_repeats=20,
)


class Asked:
    """The prompts that are looked up in our index, with the token ids a caller would have."""

    def __init__(self, index: PrefixIndex, fleet: Fleet, at_most: int) -> None:
        self._index = index
        self._rng = random.Random(fleet.seed)
        self._prompts = {kind: [(p, p.token_ids()) for p in fleet.asked(kind, at_most)] for kind in KINDS}

    def lookups(self, kind: str, count: int) -> Iterator[tuple[float, float]]:
        """Microseconds of hashing and match, and of hashing alone; other prompts are looked up in between."""
        for _ in range(count):
            self._index.match(hash_blocks(self._any(kind)[1], BLOCK_SIZE, PLAIN), 0.0)
            prompt, known_ids = self._any(kind)
            ids = array("I", known_ids)  # as the tokenizer leaves them: just written
            whole = timed(lambda: self._index.match(hash_blocks(ids, BLOCK_SIZE, PLAIN), 0.0))  # noqa: B023
            hashes = hash_blocks(ids, BLOCK_SIZE, PLAIN)
            found = {worker: overlap.blocks for worker, overlap in self._index.match(hashes, 0.0).items()}
            assert found == dict.fromkeys(prompt.holders, prompt.blocks)
            other = self._any(kind)[1]
            yield whole, timed(lambda: hash_blocks(other, BLOCK_SIZE, PLAIN))  # noqa: B023

    def _any(self, kind: str) -> tuple[Prompt, Ids]:
        return self._rng.choice(self._prompts[kind])


def lookups(asked: Asked, tree: JsonProcess | None, scale: Scale) -> dict[str, Any]:
    """Each kind on both sides, by turns; `mixed` has as many of one kind as of the other."""
    ours: dict[str, list[float]] = {kind: [] for kind in KINDS}
    theirs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    hashing: list[float] = []
    for _ in range(0, scale.lookups, scale.batch):
        for kind in KINDS:
            for whole, hashed in asked.lookups(kind, scale.batch):
                ours[kind].append(whole)
                hashing.append(hashed)
            if tree is not None:
                theirs[kind] += tree.ask("lookups", kind=kind, count=scale.batch)["us"]
    return {
        "us": _by_kind(ours),
        "hashing_us": distribution(hashing),
        "dynamo_us": _by_kind(theirs) if tree is not None else None,
        "dynamo_hashing_us": distribution(tree.ask("hashes", kind="disjoint", count=50)["us"]) if tree else None,
    }


def _by_kind(samples: dict[str, list[float]]) -> dict[str, Any]:
    mixed = [one for kind in KINDS for one in samples[kind]]
    return {"mixed": distribution(mixed), **{kind: distribution(samples[kind]) for kind in KINDS}}


def on_one_core(tree: JsonProcess, scale: Scale) -> dict[str, Any]:
    """Dynamo's lookups and floor where its threads share a core: the way between them is a switch, not a wake-up.

    How long a sleeping core takes to wake is the machine's, and gone where something else keeps it awake.
    """
    cores = sorted(os.sched_getaffinity(0))
    tree.ask("pin", cores=cores[-1:])
    theirs = {kind: tree.ask("lookups", kind=kind, count=scale.lookups // 2)["us"] for kind in KINDS}
    floor = tree.ask("floor", count=scale.lookups)["us"]
    tree.ask("pin", cores=cores)
    return {"dynamo_us": _by_kind(theirs), "dynamo_floor_us": distribution(floor)}


def floors(tree: JsonProcess | None, scale: Scale) -> dict[str, Any]:
    """One block looked up where nothing is stored."""
    empty, ids = PrefixIndex(), array("I", range(BLOCK_SIZE))
    ours = [timed(lambda: empty.match(hash_blocks(ids, BLOCK_SIZE, PLAIN), 0.0)) for _ in range(scale.lookups)]
    theirs = distribution(tree.ask("floor", count=scale.lookups)["us"]) if tree is not None else None
    return {"us": distribution(ours), "dynamo_us": theirs}


def at_scale(shape: tuple[int, int, int, int], seed: int, tree: JsonProcess | None, scale: Scale) -> dict[str, Any]:
    """Lookups in fleets filled alike on both sides; on the way the floors and the stores of this fleet."""
    fleet = _fleet(shape, seed)
    at_most = 1_000 if shape == scale.small else 40
    say(f"filling {fleet.workers} workers with {fleet.blocks_per_worker:,} blocks each")
    index = filled(fleet)
    assert [index.blocks(worker) for worker in range(fleet.workers)] == [fleet.blocks_per_worker] * fleet.workers
    if tree is not None:
        say("the same for Dynamo's tree")
        tree.ask("fill", fleet=dataclasses.asdict(fleet), at_most=at_most)
    say(f"looking up {fleet.blocks:,} blocks")
    shown: dict[str, Any] = {"workers": fleet.workers, "blocks_per_worker": fleet.blocks_per_worker}
    shown |= {"prompt_blocks": fleet.blocks, "block_size": BLOCK_SIZE}
    shown |= {"lookup": lookups(Asked(index, fleet, at_most), tree, scale)}
    if shape == scale.small:
        shown |= {"floor": floors(tree, scale), "one_core": on_one_core(tree, scale) if tree is not None else None}
        shown |= {"store": stores(index, tree, scale, seed)}
    return shown


def stores(index: PrefixIndex, tree: JsonProcess | None, scale: Scale, seed: int) -> list[dict[str, Any]]:
    """Blocks per second of chained store events of several sizes into a worker that is new, the others being full."""
    say("storing")
    rows = []
    for event_blocks in EVENT_BLOCKS:
        rates: dict[str, list[float]] = {"blocks_per_s": [], "blocks_per_s_lists": [], "dynamo_blocks_per_s": []}
        for repeat in range(scale.store_repeats):
            fresh = _fleet((1, scale.stored_prompts, 0, scale.small[3]), seed * 1_000_003 + repeat + 1)
            events = [event for prompt in fresh.prompts() for event in chunks(prompt, event_blocks)]
            rates["blocks_per_s"].append(store_rate(index, events))
            listed = [(parent, list(names), list(ids)) for parent, names, ids in events]
            rates["blocks_per_s_lists"].append(store_rate(index, listed))
            if tree is not None:
                told = tree.ask("store", fleet=dataclasses.asdict(fresh), event_blocks=event_blocks)
                rates["dynamo_blocks_per_s"].append(told["blocks_per_s"])
        rows.append({"event_blocks": event_blocks, **{name: spread(each) for name, each in rates.items() if each}})
    return rows


def store_rate(index: PrefixIndex, events: Sequence[Event]) -> float:
    """Blocks per second."""
    worker = max(index.workers()) + 1
    index.add_worker(worker, 1)
    start = time.perf_counter()
    for parent, names, ids in events:
        index.store(worker, Tier.DEVICE, parent, names, ids, BLOCK_SIZE)
    elapsed = time.perf_counter() - start
    blocks = sum(len(names) for _, names, _ in events)
    assert index.blocks(worker) == blocks
    index.forget(worker)
    return blocks / elapsed


def memory(scale: Scale, seed: int) -> dict[str, Any]:
    """The same fill, emptied in two ways, in a process of its own each."""
    found = {}
    for removal in ("events", "forget"):
        say(f"memory of {scale.pairs:,} blocks, removed by {removal}")
        command = [sys.executable, str(Path(__file__).parent / "index_memory.py")]
        command += ["--pairs", str(scale.pairs), "--seed", str(seed), "--removal", removal]
        found[f"by_{removal}"] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def measure(seed: int, scale: Scale, with_dynamo: bool) -> dict[str, Any]:
    """All of it, as one object."""
    started = environment()
    version, parts = None, {}
    for name, shape in (("small", scale.small), ("large", scale.large)):
        if with_dynamo:
            with dynamo_tree() as tree:
                version = tree.ask("version")["version"]
                parts[name] = at_scale(shape, seed, tree, scale)
        else:
            parts[name] = at_scale(shape, seed, None, scale)
    weighed = memory(scale, seed)
    say("growing the fleet and the prompt")
    scaling = {
        "workers": by_workers(list(scale.fleets), scale.fleet_prompt, scale.scaling_repeats, seed),
        "prompt_tokens": by_prompt(list(scale.lengths), 8, scale.scaling_repeats, seed),
    }
    return {
        "question": "what lookups and stores cost at the Python border, what blocks weigh, and how it grows",
        **headline(parts["small"], parts["large"], weighed),
        "scaling": scaling,
        "small": parts["small"],
        "large": parts["large"],
        "memory": weighed,
        "environment": {**started, "dynamo": version},
        "seed": seed,
        "repeats": {"lookups": scale.lookups, "stores": scale.store_repeats, "scaling": scale.scaling_repeats},
    }


def headline(small: dict[str, Any], large: dict[str, Any], weighed: dict[str, Any]) -> dict[str, Any]:
    """The figures that are quoted, taken from the parts."""
    us, us_large, floor = small["lookup"]["us"]["mixed"], large["lookup"]["us"]["mixed"], small["floor"]["us"]
    stored = next(row for row in small["store"] if row["event_blocks"] == HEADLINE_EVENT)
    worst = max(weighed.values(), key=lambda way: float(way["rss_end"] / way["rss_start"]))
    return {
        "lookup_us_p50": us["median"],
        "lookup_us_p99": us["p99"],
        "lookup_us_p50_6250": us_large["median"],
        "lookup_us_p99_6250": us_large["p99"],
        "warmroute_floor_us_p50": floor["median"],
        **beside_dynamo(small, stored),
        "store_blocks_per_s": stored["blocks_per_s"]["median"],
        "store_blocks_per_s_lists": stored["blocks_per_s_lists"]["median"],
        "bytes_per_block": max(way["bytes_per_block"] for way in weighed.values()),
        "bytes_per_block_by_own_account": weighed["by_events"]["bytes_per_block_by_own_account"],
        "after_removal": {name: worst[name] for name in ("rss_start", "rss_end", "nodes_start", "nodes_end")},
        "after_removal_memory_ratio": worst["rss_end"] / worst["rss_start"],
        "after_removal_nodes": max(way["nodes_end"] for way in weighed.values()),
    }


def beside_dynamo(small: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """What its callers pay over what ours pay, whole and without the floors; None where Dynamo was left out."""
    if small["lookup"]["dynamo_us"] is None:
        return dict.fromkeys(BESIDE_DYNAMO)
    ours, theirs = small["lookup"]["us"]["mixed"]["median"], small["lookup"]["dynamo_us"]["mixed"]["median"]
    floor, their_floor = small["floor"]["us"]["median"], small["floor"]["dynamo_us"]["median"]
    net = (theirs - their_floor) / (ours - floor)
    one_core = small["one_core"]["dynamo_us"]["mixed"]["median"], small["one_core"]["dynamo_floor_us"]["median"]
    rate = stored["dynamo_blocks_per_s"]["median"]
    return dict(zip(BESIDE_DYNAMO, (theirs, their_floor, theirs / ours, net, *one_core, rate), strict=True))


def _fleet(shape: tuple[int, int, int, int], seed: int) -> Fleet:
    workers, own, shared, blocks = shape
    return Fleet(workers=workers, own=own, shared=shared, blocks=blocks, seed=seed, block_size=BLOCK_SIZE)


def say(what: str) -> None:
    print(f"prefix_index: {what}", file=sys.stderr, flush=True)


def show(result: dict[str, Any]) -> Iterator[str]:
    """The figures of the headline, a line each."""
    for name, value in result.items():
        if isinstance(value, int | float) and name != "seed":
            yield f"{name:36} {value:14,.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it works; writes no result")
    parser.add_argument("--without-dynamo", action="store_true", help="measure ours alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help=f"where the result goes (default: {RESULT.name})")
    options = parser.parse_args()
    result = measure(options.seed, QUICK if options.quick else Scale(), not options.without_dynamo)
    if result["environment"]["native_build"] != "release":
        say("this is a debug build, its figures mean nothing; run: make build")
    out = options.out or (None if options.quick else RESULT)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
        say(f"wrote {out}")
    print(json.dumps(result) if options.json else "\n".join(show(result)))


if __name__ == "__main__":
    main()
