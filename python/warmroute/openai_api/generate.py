"""The engines' own endpoints: SGLang's POST /generate, and vLLM's POST /inference/v1/generate.

Sources: SGLang 0.5.23, `managers/io_struct.py` (`GenerateReqInput`); vLLM 0.32,
`entrypoints/scale_out/token_in_token_out/protocol.py` (`GenerateRequest`).
"""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, token_ids
from warmroute.openai_api.completions import read_prompts, told
from warmroute.openai_api.prompt import JsonObject, TokenContent, Untold
from warmroute.openai_api.reading import Reading

_MEDIA = ("image_data", "video_data", "audio_data")


def read_generate(body: JsonObject) -> Reading:
    """The texts or ids of a body for SGLang; its tokenizer adds special tokens to a text. Raises UnreadableBody."""
    if body.get("input_embeds") is not None or body.get("positional_embed_overrides") is not None:
        return Reading.nothing(Untold.EMBEDDINGS)
    if body.get("session_params"):
        return Reading.nothing(Untold.KEPT_STATE)
    # Where an image goes is marked in the text by a token that differs from model to model.
    if any(body.get(name) for name in _MEDIA):
        return Reading.nothing(Untold.MULTIMODAL)
    name = "text" if body.get("text") is not None else "input_ids"
    if body.get(name) is None:
        raise UnreadableBody("there is neither `text` nor `input_ids`")
    return told(read_prompts(body[name], name, add_special_tokens=True))


def read_tokens(body: JsonObject) -> Reading:
    """The ids of a body for vLLM, up to its first image. Raises UnreadableBody."""
    given = body.get("token_ids")
    if not isinstance(given, list):
        raise UnreadableBody("`token_ids` is not a list")
    if body.get("content_parts"):
        return Reading.nothing(Untold.MULTIMODAL)
    ids = token_ids(given, "token_ids")
    places = _places(body.get("features"))
    if not places:
        return told((TokenContent(ids),) if ids else ())
    return Reading((TokenContent(ids[: min(places)]),), Untold.MULTIMODAL)


def _places(features: Any) -> list[int]:
    """Where the tokens begin that stand for images: `mm_placeholders` has a list of ranges per modality."""
    found = features.get("mm_placeholders") if isinstance(features, dict) else None
    if not isinstance(found, dict):
        return []
    ranges = [each for of_one in found.values() if isinstance(of_one, list) for each in of_one]
    offsets = [each.get("offset") for each in ranges if isinstance(each, dict)]
    if not all(type(offset) is int and offset >= 0 for offset in offsets) or len(offsets) < len(ranges):
        raise UnreadableBody("`features` holds a place that is none")
    return [offset for offset in offsets if offset is not None]
