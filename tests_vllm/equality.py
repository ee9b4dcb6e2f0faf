"""Whether an answer at temperature 0 depends on what a worker has cached. If it did, routing would change answers."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests_vllm.conversations import Body, Dialect, Request, sentences
from tests_vllm.exchange import Exchange
from tests_vllm.load import Send

_ANSWER_TOKENS = 32
# float32 keeps 24 bits: a sum taken in another order differs by far less; 0 was seen.
_CLOSE = 0.001


@dataclass(slots=True)
class Equality:
    """The same prompts cold, partly warm and fully warm. `largest_difference`: between log probabilities of a token."""

    prompts: int = 0
    equal: int = 0
    largest_difference: float = 0.0
    problems: list[str] = field(default_factory=list)

    def compare(self, answers: Mapping[str, Exchange]) -> None:
        """Count one prompt, answered once for each state of the cache; the first is what the others must equal."""
        self.prompts += 1
        problems = [f"{name}: {answer.problem}" for name, answer in answers.items() if answer.failed]
        problems = problems or [*_wrong_state(answers), *self._differences(answers)]
        self.equal += not problems
        self.problems += problems

    def control(self, answer: Exchange, other: Exchange) -> None:
        """`other` answers a prompt with another start: were it answered alike, equality would prove nothing."""
        if other.failed or (answer.text, answer.logprobs) == (other.text, other.logprobs):
            self.problems.append(f"{other.label}: answered as if its start did not matter {other.problem}".rstrip())

    def _differences(self, answers: Mapping[str, Exchange]) -> list[str]:
        reference, *others = answers.items()
        problems = []
        for name, answer in others:
            difference = _difference(reference[1], answer)
            self.largest_difference = max(self.largest_difference, difference)
            if (answer.text, answer.token_ids) != (reference[1].text, reference[1].token_ids):
                problems.append(f"{answer.label}: {name} answers {answer.text!r}, {reference[0]} {reference[1].text!r}")
            elif difference > _CLOSE:
                problems.append(
                    f"{answer.label}: {name} differs from {reference[0]} by {difference:.4f} in log probability"
                )
        return problems


async def check_equality(
    model: str, count: int, rng: random.Random, workers: tuple[Send, Send], router: Send
) -> Equality:
    """Answer `count` fresh prompts on a cold worker, on a warm one (partly and fully) and through the router."""
    warm, cold = workers
    equality = Equality()
    for number in range(count):
        start, end = _start(number, rng), sentences(rng, 5)
        request = _request(model, f"prompt {number}", f"{start} {end}")
        await warm(_request(model, "start", start))
        answers = {
            "cold": await cold(request),
            "partly warm": await warm(request),
            "fully warm": await warm(request),
            "router": await router(request),
        }
        equality.compare(answers)
        other = _request(model, f"other start {number}", f"{_start(number, rng)} {end}")
        equality.control(answers["cold"], await cold(other))
    return equality


def _start(number: int, rng: random.Random) -> str:
    return f"Case {number} {rng.random()}. {sentences(rng, rng.randint(5, 25))}"


def _request(model: str, label: str, prompt: str) -> Request:
    body: Body = {"model": model, "prompt": prompt, "max_tokens": _ANSWER_TOKENS, "temperature": 0, "logprobs": 1}
    return Request("/v1/completions", body | {"return_token_ids": True}, label, Dialect.COMPLETION)


def _wrong_state(answers: Mapping[str, Exchange]) -> list[str]:
    """A comparison that compared nothing is a problem too: each worker must have been in the state it stands for."""
    cold, partly, fully = (answers[name].reported or 0 for name in ("cold", "partly warm", "fully warm"))
    if cold == 0 < partly <= fully:
        return []
    return [f"{answers['cold'].label}: cached tokens cold {cold}, partly warm {partly}, fully warm {fully}"]


def _difference(one: Exchange, other: Exchange) -> float:
    return max((abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=False)), default=0.0)
