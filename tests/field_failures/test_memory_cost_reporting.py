"""What grows without end, costs more with every worker, or reports what it does not know."""

import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from field_failures.engine import MODEL, Engine, routing
from field_failures.heard import tokens
from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

CHAINS = 1_000_000
_MEBIBYTE = 2**20

# Runs in a process of its own, so that its memory is its own; prints what `measure` returns at a quarter, half, ...
_MEASURED = """
import gc, json, sys
from array import array
from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

def resident():
    gc.collect()
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4096

index = PrefixIndex()
index.add_worker(1, {limit})
sizes = []
for quarter in range(4):
    for number in range(quarter * {chains} // 4, (quarter + 1) * {chains} // 4):
{body}
    sizes.append((resident(), index.size(), index.blocks(1)))
index.check_integrity()
print(json.dumps(dict(sizes=sizes, stats=index.stats())))
"""


def measured(body: str, limit: int, chains: int = CHAINS) -> dict[str, Any]:
    """Runs `body` for each `number` below `chains`; resident bytes and block counts after each quarter, and stats."""

    indented = "\n".join(" " * 8 + line for line in body.splitlines())
    script = _MEASURED.format(limit=limit, chains=chains, body=indented)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=55)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_million_unique_prompts_leave_as_many_blocks_as_the_cap_allows() -> None:
    """vllm-project/production-stack#687: the prefix trie grew until the router was killed."""
    cap = 20_000
    body = "index.predict(1, hash_blocks([number, 1, number, 2], 2, Namespace()), 1e9)"
    found = measured(body, limit=cap)
    assert [blocks for _, _, blocks in found["sizes"]] == [cap] * 4
    assert [size for _, size, _ in found["sizes"]] == [cap] * 4
    first, *later = [resident for resident, _, _ in found["sizes"]]
    assert max(later) - first < 4 * _MEBIBYTE, f"grew after the cap was reached: {found['sizes']}"
    assert found["stats"]["predictions_evicted"] == 2 * CHAINS - cap


def test_a_million_chains_stored_and_removed_leave_nothing() -> None:
    """dynamo#10774, PR#11678: dead nodes stayed linked, one to twenty gigabytes an hour."""
    body = """names = [4 * number, 4 * number + 1, 4 * number + 2]
index.store(1, Tier.DEVICE, None, names, [number, 1, 2], 1)
index.remove(1, Tier.DEVICE, names)"""
    found = measured(body, limit=0)
    assert [(size, blocks) for _, size, blocks in found["sizes"]] == [(0, 0)] * 4
    left = {name: found["stats"][name] for name in ("blocks", "engine_hashes", "orphans", "predictions")}
    assert left == {"blocks": 0, "engine_hashes": 0, "orphans": 0, "predictions": 0}
    first, *later = [resident for resident, _, _ in found["sizes"]]
    assert max(later) - first < 4 * _MEBIBYTE, f"grew while nothing was held: {found['sizes']}"


def test_chains_that_branch_and_are_removed_tail_first_leave_nothing() -> None:
    """dynamo#10774: a tree that splits and never merges; here every chain shares its head with the one before."""
    body = """parent = 1 if number else None
if not number:
    index.store(1, Tier.DEVICE, None, [1], [7], 1)
    continue
names = [10 * number, 10 * number + 1]
index.store(1, Tier.DEVICE, 1, names, [number, number], 1)
if number > 50:
    gone = number - 50
    index.remove(1, Tier.DEVICE, [10 * gone + 1, 10 * gone])"""
    found = measured(body, limit=0, chains=300_000)
    assert [blocks for _, _, blocks in found["sizes"]] == [101] * 4
    first, *later = [resident for resident, _, _ in found["sizes"]]
    assert max(later) - first < 4 * _MEBIBYTE


def test_a_worker_that_holds_much_gives_its_memory_back_when_it_goes() -> None:
    """llm-d-router#1736, dynamo#10774: what is cleared or forgotten must not stay allocated."""
    body = """if number == 0:
    index.store(1, Tier.DEVICE, None, list(range(400_000)), [5] * 400_000, 1)
elif number == 2:
    index.clear(1)
elif number == 4:
    # The allocator hands pages back a second after they are freed, at the next occasion that takes pages.
    import time; time.sleep(1.2)
    index.store(1, Tier.DEVICE, None, list(range(2_000)), [2] * 2_000, 1)
    index.clear(1)"""
    found = measured(body, limit=0, chains=8)
    full, after = found["sizes"][0], found["sizes"][-1]
    assert (full[1], after[1]) == (400_000, 0)
    assert after[0] < full[0] - 8 * _MEBIBYTE, found["sizes"]


def seconds(call: Callable[[], object]) -> float:
    """The best of many: what the call costs when nothing else gets in the way."""
    best = float("inf")
    for _ in range(30):
        begun = time.perf_counter()
        for _ in range(20):
            call()
        best = min(best, time.perf_counter() - begun)
    return best


def fleet_of(workers: int) -> PrefixIndex:
    """Every worker holds 20 blocks of its own; the first eight hold a common prompt as well."""
    index = PrefixIndex()
    for worker in range(workers):
        index.add_worker(worker, 0)
        names = list(range(20))
        index.store(worker, Tier.DEVICE, None, names, [worker + 10] * 20, 1)
        if worker < 8:
            index.store(worker, Tier.DEVICE, None, [100 + name for name in range(200)], [3] * 200, 1)
    return index


@pytest.mark.parametrize("prompt", [[3] * 200, [4] * 200], ids=["held-by-eight", "held-by-none"])
def test_workers_that_do_not_hold_the_prompt_cost_a_lookup_nothing(prompt: list[int]) -> None:
    """smg-project/smg#1692: the cost of a request grew with the number of workers (a scan would be 256 times)."""
    hashes = hash_blocks(prompt, 1, Namespace())
    few, many = fleet_of(8), fleet_of(2_048)
    assert few.match(hashes, 0.0) == many.match(hashes, 0.0)
    assert seconds(lambda: many.match(hashes, 0.0)) < 8 * seconds(lambda: few.match(hashes, 0.0)) + 20 * 2e-6


def predicting(limit: int) -> Callable[[], None]:
    """A call that predicts a prompt nobody has seen, on a worker that is at its limit."""
    index = PrefixIndex()
    index.add_worker(1, limit)
    unseen = itertools.count()

    def predict() -> None:
        number = next(unseen)
        index.predict(1, hash_blocks([number, 1, number, 2], 2, Namespace()), 1e9)

    for _ in range(limit):
        predict()
    return predict


def test_predictions_that_are_held_cost_another_one_nothing() -> None:
    """vllm-project/production-stack#687, smg-project/smg#1692: what is remembered must not slow down each request."""
    assert seconds(predicting(80_000)) < 12 * seconds(predicting(1_000))


DETAILS = [
    ({"prompt_tokens": 10}, None),
    ({"prompt_tokens": 10, "prompt_tokens_details": None}, None),
    ({"prompt_tokens": 10, "prompt_tokens_details": {}}, None),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": None}}, None),
    (None, None),
    ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}}, 0),
    ({"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": 512}}, 512),
]


@pytest.mark.parametrize(("usage", "reported"), DETAILS, ids=repr)
async def test_cached_tokens_that_are_not_told_are_unknown_and_not_zero(usage: Any, reported: int | None) -> None:
    """vllm-project/vllm-ascend#9030, gpustack/gpustack#5189: null details counted as misses in the hit rate."""
    engine = Engine(usage=usage)
    async with engine.serve() as url, routing(engine) as gateway, aiohttp.ClientSession() as session:
        while not await sent(session, gateway.url, tokens(*random.Random(1).sample(range(1000), 40))):
            await asyncio.sleep(0.02)
        series = await figures(session, gateway.admin_url, url)
    predictions = {name: value for name, value in series.items() if name.startswith("warmroute_predictions_total")}
    result = "unknown" if reported is None else "exact" if reported == 0 else "under"
    assert predictions == {f"warmroute_predictions_total/{result}": 1.0}
    assert series.get("warmroute_reported_cached_tokens_total") == (None if reported is None else float(reported))


async def sent(session: aiohttp.ClientSession, url: str, prompt: list[int]) -> bool:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1}
    async with session.post(f"{url}/v1/completions", json=body) as response:
        return response.status == 200


async def figures(session: aiohttp.ClientSession, url: str, worker: str) -> dict[str, float]:
    """The worker's series: by name, and by `result` where they have one."""
    async with session.get(f"{url}/metrics") as response:
        lines = (await response.text()).splitlines()
    found = {}
    for line in lines:
        if not line.startswith("#") and worker in line:
            name, value = line.split("{")[0], float(line.rsplit(" ", 1)[1])
            result = line.split('result="')[1].split('"')[0] if 'result="' in line else ""
            found[f"{name}/{result}" if result else name] = value
    return found
