"""Bodies as the blocks that an engine caches, counted as the simulator counts a log."""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warmroute.doctor.options import DoctorOptions
from warmroute.openai_api import Endpoint, JsonObject, read_prompt
from warmroute.request_log.blocks import Blocking
from warmroute.request_log.request import BrokenLine, LoggedRequest, ToldPrompt

ADAPTER_FIELDS = ("lora_path", "lora_name", "lora", "adapter", "adapter_id", "adapter_name", "lora_adapter")
"""Where servers take the name of an adapter, apart from the model's."""

# A number of Python is 32 bytes, its place in a set up to 60; in an array it is 8. Each array is looked into.
_SET_BYTES, _ARRAY_BYTES, _MOST_ARRAYS = 90, 8, 32
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
    """Keeps the blocks that were used last, as many as `memory_bytes` hold.

    What is used goes into a young set; a full one becomes a sorted array of a tenth of its size; the oldest
    array is let go. What a prompt adds goes in together: where a set or an array holds a block, it holds all before it.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._most_young = max(1, memory_bytes // (_SET_BYTES + _MOST_ARRAYS * _ARRAY_BYTES))
        self._young: set[int] = set()
        self._arrays: deque[array[int]] = deque()
        self.dropped = 0

    def put(self, hashes: Sequence[int]) -> int:
        """As that of the endless one."""
        young = first_missing(hashes, self._young)
        if young == len(hashes):
            return young
        found = max(young, *(_first_missing_after(young, hashes, each) for each in self._arrays), 0)
        self._young.update(hashes[young:])
        if len(self._young) > self._most_young:
            self._arrays.append(array("Q", sorted(self._young)))
            self._young = set()
            if len(self._arrays) > _MOST_ARRAYS:
                self.dropped += len(self._arrays.popleft())
        return found


def _first_missing_after(start: int, hashes: Sequence[int], held: "array[int]") -> int:
    """As below, in a sorted array; not looked for in front of `start`."""
    if not _is_in(hashes[start], held):
        return start
    return bisect_left(range(len(hashes)), True, lo=start, key=lambda at: not _is_in(hashes[at], held))


def _is_in(block: int, held: "array[int]") -> bool:
    at = bisect_left(held, block)
    return at < len(held) and held[at] == block


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
