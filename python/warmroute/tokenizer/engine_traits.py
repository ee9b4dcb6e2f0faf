"""What engines find out about a model and its chat template before they use it.

Sources: vLLM 0.32, `entrypoints/anthropic/serving.py` (`_detect_merge_inline_system`,
`_probe_disabled_thinking_effort`), `config/model.py` (the tokenizer's mode); SGLang 0.5.23,
`parser/jinja_template_utils.py`, `entrypoints/openai/chat_encoding.py`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jinja2

from warmroute.errors import TemplateError
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.content_format import loops_over_content

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
# Each with a system message in the middle, which some templates refuse.
_INLINE_SYSTEM = [{"role": role, "content": "t"} for role in ("system", "user", "system", "user")]

# Conversations with these become tokens by code in the engine, whatever template the model's folder has.
_ENCODED_BY_CODE = ("KimiK3", "DeepseekV32", "DeepseekV4", "Inkling")


def is_encoded_by_code(config: Mapping[str, Any], in_harmony: bool = True) -> bool:
    """Whether an engine renders the conversations of a model without its chat template; `config` is its config.json.

    vLLM does for gpt-oss (`in_harmony`, the format's name; SGLang takes the template), and both for a few others.
    """
    architectures = config.get("architectures")
    names = [name for name in architectures if isinstance(name, str)] if isinstance(architectures, list) else []
    return (in_harmony and config.get("model_type") == "gpt_oss") or any(
        name.startswith(_ENCODED_BY_CODE) for name in names
    )


@lru_cache(maxsize=64)
def merges_inline_system(template: ChatTemplate) -> bool:
    """Whether vLLM moves the system messages of a messages body into the first one.

    It does where the template fails on one that is not the first; it tries that without the functions that templates
    are given elsewhere, so that one which calls them without asking whether they exist counts as failing, too.
    """
    if "endgeneration" in template.source:
        return True
    absent = {name: jinja2.Undefined(name=name) for name in ("raise_exception", "strftime_now")}
    try:
        template.render(_INLINE_SYSTEM, {**absent, "add_generation_prompt": False})
    except TemplateError:
        return True
    return False


@lru_cache(maxsize=64)
def effort_without_thinking(template: ChatTemplate) -> str:
    """The effort that vLLM asks the template for where a messages body switches thinking off.

    `none`, unless the template fails on that or writes the same as for an effort: then the least effort.
    """
    without = _greeting(template, "none")
    if without is None or any(_greeting(template, effort) == without for effort in _EFFORTS):
        return "low"
    return "none"


def _greeting(template: ChatTemplate, effort: str) -> str | None:
    content: Any = [{"type": "text", "text": "Hi"}] if template.takes_parts else "Hi"
    options: Mapping[str, Any] = {
        "add_generation_prompt": True,
        "enable_thinking": effort != "none",
        "reasoning_effort": effort,
        "tools": None,
        "documents": None,
        "bos_token": "",
        "eos_token": "",
    }
    try:
        return template.render([{"role": "user", "content": content}], options)
    except TemplateError:
        return None


@lru_cache(maxsize=64)
def takes_parts_in_sglang(template: ChatTemplate) -> bool:
    """Whether SGLang hands the contents of messages over as lists of parts, where the client wrote them so."""
    if any(word in template.source for word in ("image", "audio", "video", "vision")):
        return True
    return loops_over_content(template.source)
