"""A served engine that publishes no KV events: its cache is guessed, answers included, and the guess is right."""

from typing import Any

import aiohttp

from e2e.processes import engine, router, until_ready


async def test_conversations_are_predicted_exactly_until_and_while_the_cache_is_too_small() -> None:
    async with (
        engine("--kv-events", "off", "--num-blocks", "64", "--max-model-len", "512") as worker,
        router([worker.url]) as gate,
        aiohttp.ClientSession() as session,
    ):
        await until_ready(gate.admin_url, 1)
        talks = {number: [100 * number + i for i in range(40)] for number in range(1, 7)}
        hits = []
        for turn in range(6):
            for number, prompt in talks.items():
                predicted, reported, answer = await ask(session, gate.url, prompt)
                assert predicted == reported
                hits.append(reported)
                talks[number] = [*prompt, *answer, *range(3000 + turn, 3009 + turn)]
        assert any(hits), "answers and prompts are found again"
        assert 0 in hits[len(talks) :], "and some were pushed out"


async def ask(session: aiohttp.ClientSession, url: str, prompt: list[int]) -> tuple[int, int, list[int]]:
    """Cached tokens as predicted and as reported, and the answer's token ids."""
    body: dict[str, Any] = {
        "model": "warmroute-tiny",
        "prompt": prompt,
        "max_tokens": 21,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    async with session.post(f"{url}/v1/completions", json=body) as response:
        answer = await response.json()
        assert response.status == 200, answer
        predicted = int(response.headers["x-warmroute-cached-tokens"])
    reported = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return predicted, reported, answer["choices"][0]["token_ids"]
