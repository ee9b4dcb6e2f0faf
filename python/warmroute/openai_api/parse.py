"""From the bytes of a body to a `Prompt`, whatever the bytes are."""

from collections.abc import Callable

from warmroute.block import Namespace
from warmroute.openai_api.body import UnreadableBody, count, flag, read_object, text
from warmroute.openai_api.chat import read_chat
from warmroute.openai_api.completions import read_completions
from warmroute.openai_api.embeddings import read_embeddings
from warmroute.openai_api.generate import read_generate, read_tokens
from warmroute.openai_api.messages import read_messages
from warmroute.openai_api.prompt import Endpoint, JsonObject, Prompt, Untold
from warmroute.openai_api.reading import Reading
from warmroute.openai_api.responses import read_responses
from warmroute.openai_api.session import session_of

_READERS: dict[Endpoint, Callable[[JsonObject], Reading]] = {
    Endpoint.COMPLETIONS: read_completions,
    Endpoint.CHAT: read_chat,
    Endpoint.EMBEDDINGS: read_embeddings,
    Endpoint.RESPONSES: read_responses,
    Endpoint.MESSAGES: read_messages,
    Endpoint.GENERATE: read_generate,
    Endpoint.TOKENS: read_tokens,
    Endpoint.OTHER: lambda _body: Reading.nothing(Untold.NO_PROMPT),
}


def parse_prompt(endpoint: Endpoint, body: bytes) -> Prompt:
    """Read `body` as its endpoint does. Never raises: what cannot be read is named in `Prompt.problem`."""
    try:
        return read_prompt(endpoint, read_object(body))
    except UnreadableBody as exc:
        return _unreadable(endpoint, exc)


def read_prompt(endpoint: Endpoint, body: JsonObject) -> Prompt:
    """The same for a body that has been parsed."""
    try:
        return _read_prompt(endpoint, body)
    except UnreadableBody as exc:
        return _unreadable(endpoint, exc)


def _unreadable(endpoint: Endpoint, error: UnreadableBody) -> Prompt:
    # Other endpoints take other bodies, audio for one; that they are not JSON is no fault of theirs.
    if endpoint is Endpoint.OTHER:
        return Prompt(endpoint, exact=False, untold=Untold.NO_PROMPT)
    return Prompt(endpoint, exact=False, problem=str(error), untold=Untold.UNREADABLE)


def _read_prompt(endpoint: Endpoint, body: JsonObject) -> Prompt:
    reading, problem = _read_contents(endpoint, body)
    return Prompt(
        endpoint=endpoint,
        model=text(body, "model"),
        stream=flag(body, "stream", False),
        contents=reading.contents,
        max_tokens=_max_tokens(body),
        namespace=Namespace(salt=text(body, "cache_salt") or None),
        exact=reading.untold is None,
        problem=problem,
        untold=reading.untold,
        session=session_of(body),
    )


def _max_tokens(body: JsonObject) -> int | None:
    told = count(body, "max_completion_tokens", "max_output_tokens", "max_tokens")
    sampling = body.get("sampling_params")
    if told is not None or not isinstance(sampling, dict):
        return told
    # SGLang's word for it, then vLLM's.
    return count(sampling, "max_new_tokens", "max_tokens")


def _read_contents(endpoint: Endpoint, body: JsonObject) -> tuple[Reading, str | None]:
    """What can be read, beside what is wrong: a bad prompt still has a model and a stream."""
    try:
        return _READERS[endpoint](body), None
    except UnreadableBody as exc:
        return Reading.nothing(Untold.UNREADABLE), str(exc)
