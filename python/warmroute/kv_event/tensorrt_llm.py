"""TensorRT-LLM's KV-cache events: a JSON list of what happened since the last question, read in order.

    {"event_id": 7, "window_size": 32768, "attention_dp_rank": 0, "data": {"type": "stored", ...}}

Sources: `KVCacheEventSerializer` in `tensorrt_llm/_utils.py`; `POST /kv_cache_events` of `trtllm-serve`, which hands
out each event once. So there is no replay, what somebody else asked for is lost to us, and missing ids say so.

- One radix tree per attention window tells of the same tokens under the same hashes; the largest window is the one in
  which a prefix is usable from its first block on. The other windows' events are left out.
- The last block of a prompt is stored although it is not full. It serves no prefix of full blocks, so it is not passed
  on; its removal then finds nothing in the index and is without effect.
- The size of a block is not told. It is that of any block with a successor; until there is one, a block that comes
  alone may be a full or a partial one and is held back.
- A block has one place in its engine: `updated` moves it from tier to tier, and `removed` does not say from where.
- Ranks of one endpoint share a lane, since `trtllm-serve` lets nobody choose among them: a block counts while any rank
  has it. Adapters are not told by any release seen so far; where one is, it separates.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec

from warmroute.block import EngineHash, Tier
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.listener import Position
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, Event, block_key
from warmroute.kv_event.sequence import Gap

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
# Cache levels: the primary pool on the GPU and the secondary one in host memory.
_LEVELS = {0: Tier.DEVICE, 1: Tier.HOST}
# Blocks kept until the block size is known. An engine that serves anything tells it with the first longer prompt.
_MOST_HELD = 1024
# How a position's mark is divided: the window below, the block size above.
_WINDOW_BITS = 48
_MOST_BLOCK_TOKENS = 2**15
_WINDOW_MASK = 2**_WINDOW_BITS - 1

JsonHash = int | str


class _Token(msgspec.Struct, gc=False):
    token_id: int
    token_extra_id: int | None = None


class _MmKey(msgspec.Struct, gc=False):
    hash: str
    start_offset: int | None = None


class _Block(msgspec.Struct):
    block_hash: JsonHash
    tokens: list[_Token]
    cache_level: int | None = 0
    mm_keys: list[_MmKey] | None = None
    cache_salt: Any = None


class _Created(msgspec.Struct, tag_field="type", tag="created"):
    pass


class _Stored(msgspec.Struct, tag_field="type", tag="stored"):
    blocks: list[_Block]
    parent_hash: JsonHash | None = None
    lora_name: Any = None
    lora_id: Any = None


class _Removed(msgspec.Struct, tag_field="type", tag="removed"):
    block_hashes: list[JsonHash]


class _Diff(msgspec.Struct):
    old_value: int | None = None
    new_value: int | None = None


class _Updated(msgspec.Struct, tag_field="type", tag="updated"):
    block_hash: JsonHash
    cache_level: _Diff | None = None


class _Envelope(msgspec.Struct):
    event_id: int
    data: msgspec.Raw
    window_size: int | None = None
    attention_dp_rank: int | None = None


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_DATA = msgspec.json.Decoder(_Created | _Stored | _Removed | _Updated)
# What the serializer makes of an event that is None.
_NOTHING = b"{}"


def split(answer: bytes) -> list[msgspec.Raw]:
    """The events of an answer, each as its JSON. Raises UndecodableFrame if it is not a JSON list."""
    try:
        return [event for event in _LIST.decode(answer) if bytes(event) != _NOTHING]
    except _UNREADABLE as error:
        raise UndecodableFrame(f"not a list of KV-cache events: {error}") from error


@dataclass(slots=True)
class PolledEvents:
    """Events, read: the events to apply in their order, and what was found wrong.

    `restarts`: another engine process began, which `events` tell as AllBlocksCleared at that place; `dropped` is why
    the same was done to blocks that an earlier process of the router had saved. `gaps` are missing event ids.
    `rejected` gives a reason for each event that could not be read; `unindexed` counts blocks left out.
    """

    events: list[Event] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    restarts: int = 0
    dropped: str | None = None
    unindexed: int = 0


@dataclass(slots=True)
class _Rank:
    """What earlier events of one rank taught: its latest id, its blocks below the GPU.

    `works`: it has said more than `created`, which an engine process says first and never again.
    """

    last_id: int = -1
    works: bool = False
    below: dict[EngineHash, Tier] = field(default_factory=dict)

    def lies(self, block_hash: EngineHash, tier: Tier) -> None:
        """Remember where a block is; a removal does not say it."""
        if tier == Tier.DEVICE:
            self.below.pop(block_hash, None)
        else:
            self.below[block_hash] = tier


class PolledEventReader:
    """Reads the answers of one endpoint, in their order.

    `start`: the index holds the blocks as of that position, learned by another process of this router. Where the first
    event is not the next one after it, everything is cleared and learned anew.
    """

    def __init__(self, start: Position | None = None) -> None:
        self._window: int | None = None
        self._block_size: int | None = None
        self._is_partial = False
        self._resume_at: int | None = None
        if start is not None:
            self._resume_at, self._is_partial = start.seq, not start.complete
            self._window, self._block_size = start.mark & _WINDOW_MASK or None, start.mark >> _WINDOW_BITS or None
        self._resumed = False
        self._ranks: dict[int | None, _Rank] = {}
        self._held: list[tuple[BlockStored, int]] = []

    @property
    def is_complete(self) -> bool:
        """Whether every event since the engine started was read, as far as can be told; False before the first one."""
        return not self._is_partial and (bool(self._ranks) or self._resume_at is not None)

    @property
    def position(self) -> Position | None:
        """The latest event id as `seq`; as `mark` what was learned of blocks and windows, for there is no replay to
        compare anything with. None before the first event, and where several ranks count for themselves.
        """
        last_id = self._resume_at
        if last_id is None and len(self._ranks) == 1:
            last_id = next(iter(self._ranks.values())).last_id
        if last_id is None:
            return None
        mark = (self._block_size or 0) << _WINDOW_BITS | (self._window or 0) & _WINDOW_MASK
        return Position(last_id, mark, complete=not self._is_partial)

    def read(self, events: Iterable[msgspec.Raw]) -> PolledEvents:
        """Reads an answer, or the next part of one, as `split` gives it."""
        polled = PolledEvents()
        for raw in events:
            try:
                self._take(_ENVELOPE.decode(raw), polled)
            except _UNREADABLE as error:
                polled.rejected.append(str(error))
        return polled

    def note_loss(self) -> None:
        """An answer was lost, and with it what it told."""
        self._is_partial = True

    def begin_anew(self) -> None:
        """The lane was cleared while the process goes on: what was told before cannot be had again."""
        self._is_partial = self._is_partial or bool(self._ranks) or self._resume_at is not None
        for rank in self._ranks.values():
            rank.below.clear()
        self._held = []

    def _forget(self) -> None:
        self._ranks = {}
        self._resume_at, self._resumed = None, False
        self._window = self._block_size = None
        self._held = []
        self._is_partial = False

    def _take(self, envelope: _Envelope, polled: PolledEvents) -> None:
        try:
            data = _DATA.decode(envelope.data)
        except _UNREADABLE:
            # Its number counts all the same, or the next event would seem to follow a gap.
            self._rank_of(envelope, False, polled)
            raise
        begins = isinstance(data, _Created)
        rank = self._rank_of(envelope, begins, polled)
        if not self._is_of_window(envelope.window_size, begins, polled):
            return
        if isinstance(data, _Stored):
            self._store(data, rank, polled)
        elif isinstance(data, _Removed):
            self._remove([_key(block_hash) for block_hash in data.block_hashes], rank, polled)
        elif isinstance(data, _Updated):
            _move(data, rank, polled)

    def _rank_of(self, envelope: _Envelope, begins: bool, polled: PolledEvents) -> _Rank:
        """The state of the event's rank after its number was judged."""
        self._judge_resumption(envelope, begins, polled)
        rank = self._ranks.get(envelope.attention_dp_rank)
        if rank is not None and (envelope.event_id <= rank.last_id or (begins and rank.works)):
            self._clear(polled)
            polled.restarts += 1
            rank = None
        if rank is None:
            rank = self._ranks[envelope.attention_dp_rank] = _Rank()
        if envelope.event_id > rank.last_id + 1:
            polled.gaps.append(Gap(rank.last_id + 1, envelope.event_id - 1))
            self._is_partial = True
        rank.last_id = envelope.event_id
        rank.works = rank.works or not begins
        return rank

    def _judge_resumption(self, envelope: _Envelope, begins: bool, polled: PolledEvents) -> None:
        """The first event decides whether blocks learned before are those of this process."""
        if self._resume_at is None:
            return
        expected = self._resume_at + 1
        if begins or envelope.event_id != expected:
            polled.dropped = f"the engine goes on with event {envelope.event_id}, not {expected}"
            self._clear(polled)
            return
        self._ranks[envelope.attention_dp_rank] = _Rank(self._resume_at, works=True)
        self._resume_at, self._resumed = None, True

    def _clear(self, polled: PolledEvents) -> None:
        """Another process: its ranks all began empty."""
        self._forget()
        polled.events.append(AllBlocksCleared())

    def _is_of_window(self, window: int | None, begins: bool, polled: PolledEvents) -> bool:
        if window is None or window == self._window:
            return True
        if self._window is not None and window < self._window:
            return False
        if self._window is not None and not begins:
            # Joined too late to hear of all windows; what a smaller one told is no prefix.
            polled.events.append(AllBlocksCleared())
            self.begin_anew()
        self._window = window
        return True

    def _store(self, stored: _Stored, rank: _Rank, polled: PolledEvents) -> None:
        blocks = stored.blocks
        if self._block_size is None:
            self._learn_block_size(stored, polled)
        size = self._block_size
        if size is None:
            self._hold(stored, polled)
            return
        full = next((i for i, block in enumerate(blocks) if len(block.tokens) != size), len(blocks))
        polled.unindexed += len(blocks) - full
        for block in blocks[:full]:
            rank.lies(_key(block.block_hash), _tier(block.cache_level))
        polled.events.extend(_chains(stored, blocks[:full], size))
        if full < len(blocks) and len(blocks[full].tokens) > size:
            raise ValueError(f"a block of {len(blocks[full].tokens)} tokens, where others have {size}")

    def _hold(self, stored: _Stored, polled: PolledEvents) -> None:
        """Keeps a block that came alone, as if it were full."""
        if len(self._held) == _MOST_HELD:
            self._held.pop(0)
            polled.unindexed += 1
        tokens = len(stored.blocks[0].tokens) if stored.blocks else 0
        if tokens:
            self._held.extend((event, tokens) for event in _chains(stored, stored.blocks, tokens))

    def _learn_block_size(self, stored: _Stored, polled: PolledEvents) -> None:
        """From a block with a successor: in the same event, or one that is held back and continued now."""
        parent = None if stored.parent_hash is None else _key(stored.parent_hash)
        size = next((tokens for event, tokens in self._held if event.block_hashes[0] == parent), None)
        if size is None and len(stored.blocks) > 1:
            size = len(stored.blocks[0].tokens)
        if size is None:
            return
        if not 0 < size < _MOST_BLOCK_TOKENS:
            raise ValueError(f"a block of {size} tokens")
        self._block_size = size
        polled.events.extend(event for event, tokens in self._held if tokens == size)
        polled.unindexed += sum(tokens != size for _, tokens in self._held)
        self._held = []

    def _remove(self, hashes: list[EngineHash], rank: _Rank, polled: PolledEvents) -> None:
        gone = set(hashes)
        self._held = [held for held in self._held if held[0].block_hashes[0] not in gone]
        by_tier: dict[Tier, list[EngineHash]] = {Tier.DEVICE: []}
        for block_hash in hashes:
            by_tier.setdefault(rank.below.pop(block_hash, Tier.DEVICE), []).append(block_hash)
        if self._resumed:
            # Where the blocks of before lie was not saved; a tier without the block takes no notice.
            by_tier[Tier.HOST] = by_tier[Tier.DISK] = hashes
        for tier, of_tier in by_tier.items():
            if of_tier:
                polled.events.append(BlockRemoved(block_hashes=of_tier, tier=tier))


def _move(updated: _Updated, rank: _Rank, polled: PolledEvents) -> None:
    """A block changes its tier. It enters the new one first, or the last copy would take its name along."""
    level = updated.cache_level
    if level is None or level.new_value is None or level.new_value == level.old_value:
        return
    block_hash, tier = _key(updated.block_hash), _tier(level.new_value)
    old = rank.below.get(block_hash, _tier(level.old_value))
    if old == tier:
        return
    rank.lies(block_hash, tier)
    polled.events.append(BlockStored(block_hashes=[block_hash], tier=tier))
    polled.events.append(BlockRemoved(block_hashes=[block_hash], tier=old))


def _chains(stored: _Stored, blocks: list[_Block], size: int) -> list[BlockStored]:
    """The blocks as stores, one for each run of blocks in the same tier."""
    events: list[BlockStored] = []
    parent = None if stored.parent_hash is None else _key(stored.parent_hash)
    adapter = _adapter(stored)
    for tier, run in groupby(blocks, key=lambda block: _tier(block.cache_level)):
        chain = list(run)
        hashes = [_key(block.block_hash) for block in chain]
        keys = [_extras(block) for block in chain]
        salt = chain[0].cache_salt
        events.append(
            BlockStored(
                block_hashes=hashes,
                parent=parent,
                token_ids=[token.token_id for block in chain for token in block.tokens],
                block_size=size,
                tier=tier,
                adapter=adapter,
                salt=salt if isinstance(salt, str) and salt else None,
                block_keys=keys if any(keys) else None,
            )
        )
        parent = hashes[-1]
    return events


def _extras(block: _Block) -> bytes | None:
    """The key of a block's images, each as `[hash, offset]`, and of tokens that stand for prompt-table entries."""
    extras: list[Any] = [[key.hash, key.start_offset] for key in block.mm_keys or ()]
    extra_ids = [token.token_extra_id or 0 for token in block.tokens]
    if any(extra_ids):
        extras.append(extra_ids)
    return block_key(extras)


def _adapter(stored: _Stored) -> str | None:
    """The adapter's name; a number alone separates, but is credited to nobody."""
    if isinstance(stored.lora_name, str) and stored.lora_name:
        return stored.lora_name
    return f"lora-id:{stored.lora_id}" if stored.lora_id else None


def _tier(level: int | None) -> Tier:
    return _LEVELS.get(level or 0, Tier.DISK)


def _key(block_hash: JsonHash) -> EngineHash:
    """The hash as the index takes it: what does not fit into 64 bits, as a sha256 does not, as bytes."""
    if isinstance(block_hash, str):
        return block_hash.encode()
    if -(2**63) <= block_hash < 2**64:
        return block_hash
    return block_hash.to_bytes(block_hash.bit_length() // 8 + 1, signed=True)
