"""Plain chats, told without running the template for each: by what it writes for their roles, found out once."""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from warmroute._native import Conversations, Encoder, PlainChat, PlainUnknown
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.tracing import TracingTemplate, trace

_MOST_REFUSED = 4_096
"""Signatures that are remembered as depending on more than the roles."""


class PlainChats:
    """Plain chats of one model, as engines of one kind read them. Safe from any thread.

    A signature, one letter for the role of each message, has to be learned once; that runs the template on stand-ins
    for the contents, in 4 to 10 us a message (`bench/tokenize.py`). Then a chat of these roles is told from its bytes.
    """

    def __init__(
        self,
        encoder: Encoder,
        template: TracingTemplate,
        special_tokens: Mapping[str, Any],
        dialect: Dialect,
        cache: int,
    ) -> None:
        """Keeps `cache` bytes of conversations."""
        self._new_conversations: Callable[[], Conversations] = lambda: Conversations(encoder, cache)
        self._conversations = self._new_conversations()
        self._template = template
        self._trace: Callable[[str], Any] = lambda signature: trace(template, special_tokens, dialect, signature)
        self._refused: OrderedDict[str, None] = OrderedDict()

    def tell(self, chat: PlainChat, most_new_bytes: int) -> "array[int] | PlainUnknown":
        """The ids of `chat`, if at most about so many bytes of it are new; else why they are not told."""
        if not self._template.is_of_today():
            self._conversations = self._new_conversations()
        told = self._conversations.encode(chat, most_new_bytes)
        if not isinstance(told, bytes):
            return told
        ids: array[int] = array("I")
        ids.frombytes(told)
        return ids

    def can_learn(self, signature: str) -> bool:
        """Whether it is worth trying to learn it."""
        return signature not in self._refused

    def learn(self, signature: str) -> bool:
        """Find out what the template writes for these roles; False where that depends on more than the roles."""
        skeleton = self._trace(signature)
        if skeleton is not None:
            try:
                self._conversations.learn(signature, skeleton.pieces, skeleton.guards)
            except ValueError:  # A content is left out of the text, by a rule that nobody has looked at.
                skeleton = None
        if skeleton is None:
            self._refused[signature] = None
            if len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)
        return skeleton is not None
