"""From a body to the token ids that the engine computes, as vLLM's frontend does it; what it cannot do is a 400."""

import asyncio
from dataclasses import replace

from warmroute.emulator.answer import Codec
from warmroute.emulator.refusal import refused
from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Content, Endpoint, Prompt, TextContent, TokenContent, parse_prompt

# Below this many bytes a prompt is encoded on the event loop: handing it to a thread costs more than the encoding.
_INLINE_BYTES = 4_000


class PromptReader:
    """Reads prompts with one tokenizer and chat template."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    async def read(self, endpoint: Endpoint, raw: bytes) -> tuple[Prompt, list[list[int]]]:
        """The prompt in `raw` and the ids of each of its contents, at least one id each. Raises the 400."""
        prompt = parse_prompt(endpoint, raw)
        if prompt.problem is not None:
            raise refused(prompt.problem)
        if not prompt.exact or not prompt.contents:
            raise refused("The emulated model takes text only, without state kept on the server.")
        inline = len(raw) < _INLINE_BYTES
        contents = prompt.contents
        ids = self._all_ids(prompt) if inline else await asyncio.to_thread(self._all_ids, prompt)
        if not all(ids):
            raise refused("The prompt has no tokens.", param="prompt" if _is_plain(contents[0]) else "messages")
        return prompt, ids

    def _all_ids(self, prompt: Prompt) -> list[list[int]]:
        return [self._ids(prompt, content) for content in prompt.contents]

    def _ids(self, prompt: Prompt, content: Content) -> list[int]:
        if isinstance(content, TokenContent):
            return self._checked(list(content.token_ids))
        try:
            return list(self._codec.encode(replace(prompt, contents=(content,))).ids)
        except TemplateError as error:
            raise refused(str(error), param="messages" if isinstance(content, ChatContent) else None) from error

    def _checked(self, ids: list[int]) -> list[int]:
        unknown = next((token for token in ids if token >= self._codec.vocab_size), None)
        if unknown is not None:
            raise refused(f"Token id {unknown} is out of vocabulary.", param="prompt")
        return ids


def _is_plain(content: Content) -> bool:
    return isinstance(content, TextContent | TokenContent)
