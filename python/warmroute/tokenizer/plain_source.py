"""The tokens of plain chats, whichever model they ask for, told from their bytes."""

import asyncio
from array import array
from collections.abc import Callable

from warmroute._native import PlainChat, PlainUnknown
from warmroute.tokenizer.encode_pool import EncodePool
from warmroute.tokenizer.per_model import ServedBy, Tokenizers
from warmroute.tokenizer.plain_chats import PlainChats

# Text that was never seen takes 10 to 20 us for 1,000 bytes; the hop to a thread and back takes 200, and when the loop
# is busy one or two of its rounds.
_INLINE_BYTES = 16_384
# Messages whose roles are learned on the loop, in 5 us each.
_INLINE_MESSAGES = 24
_LONGEST_BYTES = 16_000_000
# A conversation of more messages is rendered: what is written around each of them would be kept for its length alone.
_MOST_MESSAGES = 4_096


class PlainChatSource:
    """Tells the tokens of chats of texts alone; what it does not tell has to be read with more care.

    `timeout_s` covers waiting for a thread of `pool` and encoding.
    """

    def __init__(self, served_by: ServedBy, tokenizers: Tokenizers, pool: EncodePool, timeout_s: float) -> None:
        self._served_by = served_by
        self._tokenizers = tokenizers
        self._pool = pool
        self._timeout_s = timeout_s

    def tell_now(self, chat: PlainChat) -> "array[int] | None":
        """The ids, if they can be told at once."""
        chats = self._chats(chat)
        told = None if chats is None else chats.tell(chat, _INLINE_BYTES)
        if told == PlainUnknown.SIGNATURE and chats is not None and len(chat.signature) <= _INLINE_MESSAGES:
            told = chats.tell(chat, _INLINE_BYTES) if self._learn(chats, chat) else None
        return told if isinstance(told, array) else None

    async def read(self, reading: Callable[[], PlainChat | None]) -> PlainChat | None:
        """A long body read in a thread; None where it is not plain, where too many wait for the threads already, or
        when the time is up."""
        if self._pool.is_full:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._pool.run(reading)
        except TimeoutError:
            return None

    async def tell(self, chat: PlainChat) -> "array[int] | None":
        """The ids, if they can be told before the time is up, in a thread."""
        chats = self._chats(chat)
        if chats is None or self._pool.is_full or not self._is_worth_it(chats, chat):
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._pool.run(lambda: self._tell_whole(chats, chat))
        except TimeoutError:
            return None

    def _tell_whole(self, chats: PlainChats, chat: PlainChat) -> "array[int] | None":
        told = chats.tell(chat, _LONGEST_BYTES)
        if told == PlainUnknown.SIGNATURE and self._learn(chats, chat):
            told = chats.tell(chat, _LONGEST_BYTES)
        return told if isinstance(told, array) else None

    def _learn(self, chats: PlainChats, chat: PlainChat) -> bool:
        return self._is_worth_it(chats, chat) and chats.learn(chat.signature)

    def _is_worth_it(self, chats: PlainChats, chat: PlainChat) -> bool:
        return len(chat.signature) <= _MOST_MESSAGES and chats.can_learn(chat.signature)

    def _chats(self, chat: PlainChat) -> PlainChats | None:
        served = self._served_by(chat.model)
        if served is None or served.mixed:
            return None
        tokenizer = self._tokenizers.of(served.names)
        return None if tokenizer is None else tokenizer.plain_chats(served.dialect)
