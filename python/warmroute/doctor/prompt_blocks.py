"""Bodies as the blocks that an engine caches, counted as the simulator counts a log."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warmroute.doctor.options import DoctorOptions
from warmroute.openai_api import Endpoint, JsonObject, read_prompt
from warmroute.request_log.blocks import Blocking
from warmroute.request_log.request import BrokenLine, LoggedRequest, ToldPrompt

ADAPTER_FIELDS = ("lora_path", "lora_name", "lora", "adapter", "adapter_id", "adapter_name", "lora_adapter")
"""Where servers take the name of an adapter, apart from the model's."""

TEMPLATE_OPTIONS = "chat_template_kwargs"


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """Hashes of the full blocks of a prompt, each covering all before it, and the prompt's tokens."""

    hashes: Sequence[int]
    tokens: int


class Counting:
    """Makes blocks of bodies."""

    def __init__(self, options: DoctorOptions) -> None:
        """Raises ConfigError for sizes that cannot be."""
        self.block_tokens = options.block_tokens
        self._options = options
        self._by_tokenizer, self._bytes_per_token = options.tokenizer is not None, options.bytes_per_token
        self._blocking = Blocking(options.block_tokens, options.tokenizer, options.bytes_per_token)

    def blocks(self, body: JsonObject, endpoint: Endpoint, apart: str | None = None) -> list[PromptBlocks]:
        """One for each prompt of the body. Raises BrokenLine where it has none that can be told.

        apart: blocks of different words are never the same.
        """
        prompt = read_prompt(endpoint, body)
        if prompt.problem is not None or not prompt.contents:
            raise BrokenLine(prompt.problem or f"its prompt cannot be told: {prompt.untold}")
        date = None if self._by_tokenizer else _handed_date(body)
        namespace = ":".join(filter(None, (prompt.model, adapter_of(body), date, apart))) or None
        told = [ToldPrompt(content, namespace, prompt.namespace.salt, prompt.exact) for content in prompt.contents]
        blocked = [self._blocking.blocked(LoggedRequest(0.0, each)) for each in told]
        return [PromptBlocks(each.blocks[: each.full_blocks], each.prompt_tokens) for each in blocked]

    def shared_tokens(self, left: JsonObject, right: JsonObject, endpoint: Endpoint) -> int:
        """The tokens with which the first prompts of two bodies begin alike, those of a block that is not full, too."""
        finest = self._one_token.blocks(left, endpoint)[0], self._one_token.blocks(right, endpoint)[0]
        held = set(finest[0].hashes)
        return first_missing(finest[1].hashes, held)

    def padding(self, tokens: int) -> str:
        """A text of so many tokens that says nothing."""
        return " ." * tokens if self._by_tokenizer else "." * round(tokens * self._bytes_per_token)

    @cached_property
    def _one_token(self) -> "Counting":
        return Counting(replace(self._options, block_tokens=1))


def _handed_date(body: JsonObject) -> str | None:
    """The date that a template is handed, and writes before all else; the text of a prompt does not tell it."""
    options = body.get(TEMPLATE_OPTIONS)
    dates = {name: value for name, value in options.items() if "date" in name} if isinstance(options, dict) else {}
    return repr(dates) if dates else None


def adapter_of(body: JsonObject) -> str | None:
    """The adapter that a body names apart from its model."""
    return next((value for name in ADAPTER_FIELDS if isinstance(value := body.get(name), str) and value), None)


class EndlessCache:
    """Keeps every block."""

    def __init__(self) -> None:
        self._held: set[int] = set()

    def put(self, hashes: Sequence[int]) -> int:
        """How many of the first blocks were held; all are from now on."""
        found = first_missing(hashes, self._held)
        self._held.update(hashes)
        return found

    def __len__(self) -> int:
        return len(self._held)


class BoundedCache:
    """Keeps the blocks that were used last, up to `most` of them.

    Two sets take turns: what is used goes into the young one; where that is full it becomes the old one, and what had
    not been used since is gone. A prompt's blocks go in together, so where a block is held all before it are.
    """

    def __init__(self, most: int) -> None:
        self._most_young = max(1, most // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()
        self.dropped = 0

    def put(self, hashes: Sequence[int]) -> int:
        """As that of the endless one."""
        found = max(first_missing(hashes, self._young), first_missing(hashes, self._old))
        self._young.update(hashes)
        if len(self._young) > self._most_young:
            self.dropped += len(self._old)
            self._old, self._young = self._young, set()
        return found


def first_missing(hashes: Sequence[int], held: set[int]) -> int:
    """The number of leading blocks that are held. A hash covers what is before it: where one is, all before are."""
    return bisect_left(range(len(hashes)), True, key=lambda at: hashes[at] not in held)


@dataclass(slots=True)
class Tally:
    """Prompt tokens of some requests, and how many of them were found."""

    requests: int = 0
    tokens: int = 0
    cached: int = 0

    def add(self, tokens: int, cached: int) -> None:
        """One more request."""
        self.requests += 1
        self.tokens += tokens
        self.cached += cached

    @property
    def computed(self) -> int:
        """Tokens that had to be computed."""
        return self.tokens - self.cached

    @property
    def share(self) -> float:
        """Of the tokens those that were found."""
        return self.cached / self.tokens if self.tokens else 0.0


def put_all(cache: EndlessCache | BoundedCache, prompts: Iterable[PromptBlocks], block_tokens: int) -> tuple[int, int]:
    """Tokens of a body's prompts, and how many of them the cache had."""
    tokens = cached = 0
    for prompt in prompts:
        tokens += prompt.tokens
        cached += cache.put(prompt.hashes) * block_tokens
    return tokens, min(tokens, cached)
