"""How long a prompt is before it is tokenised."""

from collections.abc import Sequence

from warmroute.openai_api import ChatContent, Content, JsonObject, TextContent
from warmroute.openai_api.body import kind
from warmroute.openai_api.chat import TEXT_PARTS
from warmroute.tokenizer.source import Original

# A definition of a tool, for the purpose of telling small prompts from large ones.
_CHARACTERS_PER_TOOL = 500
# No engine reads more: 16 million characters are some 4 million tokens.
_LONGEST_TEXT = 16_000_000


def prompt_size(contents: Sequence[Content], original: Original | None = None) -> int:
    """About how many characters there are to encode; where the body is at hand its bytes, which are at least as many.

    A body of 400 kB is thereby judged in no time; counting what 2,000 messages say took 1 ms of the event loop.
    """
    return len(original.body) if original is not None and original.body else text_size(contents)


def is_too_long(contents: Sequence[Content], original: Original | None = None) -> bool:
    """Whether the text is longer than any engine reads."""
    return prompt_size(contents, original) > _LONGEST_TEXT and text_size(contents) > _LONGEST_TEXT


def text_size(contents: Sequence[Content]) -> int:
    """The characters of what is said; of tool definitions a guess, of token ids their number."""
    return sum(map(_size, contents))


def media_parts(contents: Sequence[Content]) -> int:
    """How many images and the like the conversations hold."""
    messages = (message for content in contents if isinstance(content, ChatContent) for message in content.messages)
    return sum(map(_media_in, messages))


def _media_in(message: JsonObject) -> int:
    parts = message.get("content")
    return sum(not is_text(part) for part in parts) if isinstance(parts, list) else 0


def is_text(part: object) -> bool:
    """Whether a part of a message becomes text, and not tokens that only the engine can tell."""
    if not isinstance(part, dict):
        return True
    return kind(part) in TEXT_PARTS or (part.get("type") is None and isinstance(part.get("text"), str))


def _size(content: Content) -> int:
    if isinstance(content, TextContent):
        return len(content.text)
    if isinstance(content, ChatContent):
        return _CHARACTERS_PER_TOOL * len(content.tools or ()) + sum(map(_message_size, content.messages))
    return len(content.token_ids)


def _message_size(message: JsonObject) -> int:
    said = message.get("content")
    calls = message.get("tool_calls")
    size = len(said) if isinstance(said, str) else sum(map(_part_size, said or ()))
    return size + sum(map(_call_size, calls)) if isinstance(calls, list) else size


def _part_size(part: object) -> int:
    text = part.get("text") if isinstance(part, dict) else part
    return len(text) if isinstance(text, str) else 0


def _call_size(call: object) -> int:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    return len(arguments) if isinstance(arguments, str) else 0
