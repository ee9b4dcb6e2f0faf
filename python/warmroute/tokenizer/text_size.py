"""How long a prompt is before it is tokenised."""

from collections.abc import Sequence

from warmroute.openai_api import ChatContent, Content, JsonObject, TextContent
from warmroute.tokenizer.source import Original

# A definition of a tool, for the purpose of telling small prompts from large ones.
_CHARACTERS_PER_TOOL = 500


def prompt_size(contents: Sequence[Content], original: Original | None = None) -> int:
    """About how many characters there are to encode; where the body is at hand its bytes, which are at least as many.

    A body of 400 kB is thereby judged in no time; counting what 2,000 messages say took 1 ms of the event loop.
    """
    return len(original.body) if original is not None and original.body else text_size(contents)


def text_size(contents: Sequence[Content]) -> int:
    """The characters of what is said; of tool definitions a guess, of token ids their number."""
    return sum(map(_size, contents))


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
