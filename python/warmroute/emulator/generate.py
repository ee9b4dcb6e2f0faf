"""The generating endpoints: read, submit, write tokens as they come."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

from aiohttp import web

from warmroute.emulator.answer import Answer
from warmroute.emulator.answer_format import (
    AnswerFormat,
    ChatFormat,
    CompletionFormat,
    Exchange,
    MessagesFormat,
    ResponsesFormat,
)
from warmroute.emulator.body import Body, read_body
from warmroute.emulator.engine_server import SERVER, EngineServer
from warmroute.emulator.real_time import Generation
from warmroute.openai_api import Endpoint

_FORMATS: dict[Endpoint, Callable[[Exchange], AnswerFormat]] = {
    Endpoint.COMPLETIONS: CompletionFormat,
    Endpoint.CHAT: ChatFormat,
    Endpoint.RESPONSES: ResponsesFormat,
    Endpoint.MESSAGES: MessagesFormat,
}


def generating(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of one dialect."""

    async def handle(request: web.Request) -> web.StreamResponse:
        server = request.app[SERVER]
        raw = await request.read()
        body = read_body(raw)
        server.check_model(body.model)
        prompt, prompts = await server.reader.read(endpoint, raw)
        exchange = _exchange(server, endpoint, body, prompts)
        with ExitStack() as held:
            generations = [
                held.enter_context(server.engine_for(request).generation(ids, answer.token_ids, prompt.namespace))
                for ids, answer in zip(exchange.prompts, exchange.answers, strict=True)
            ]
            answer_format = _FORMATS[endpoint](exchange)
            if body.stream:
                return await _stream(request, answer_format, generations)
            return await _whole(answer_format, generations)

    return handle


def _exchange(server: EngineServer, endpoint: Endpoint, body: Body, prompts: Sequence[Sequence[int]]) -> Exchange:
    engine = server.options.engine
    return Exchange(
        model=server.options.model_name,
        digest=server.book.digest([token for ids in prompts for token in ids]),
        prompts=prompts,
        answers=[_answer(server, endpoint, body, ids) for ids in prompts],
        block_size=engine.block_size if engine.enable_prefix_caching else None,
        include_usage=body.include_usage,
        return_token_ids=bool(body.return_token_ids),
    )


def _answer(server: EngineServer, endpoint: Endpoint, body: Body, ids: Sequence[int]) -> Answer:
    limit = body.answer_limit(endpoint, server.context_tokens - len(ids))
    # Without a limit the room may be none; one token must fit in any case.
    server.check_length(len(ids), max(1, limit))
    return server.book.write(ids, limit, bool(body.ignore_eos))


async def _whole(answer_format: AnswerFormat, generations: Sequence[Generation]) -> web.Response:
    for generation in generations:
        await generation.beyond(generation.tokens - 1)
    return web.Response(body=answer_format.whole(_cached(generations)), content_type="application/json")


async def _stream(
    request: web.Request, answer_format: AnswerFormat, generations: Sequence[Generation]
) -> web.StreamResponse:
    """Write each token once it is there; the answers of a batch one after the other, so that bytes are repeatable."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for generation in generations:
        await generation.beyond(0)
    pending = answer_format.opening(_cached(generations))
    for index, generation in enumerate(generations):
        seen = 0
        while seen < generation.tokens:
            available = await generation.beyond(seen)
            tokens = (answer_format.token(index, position) for position in range(seen, available))
            await response.write(pending + b"".join(tokens))
            pending, seen = b"", available
    await response.write(answer_format.closing(_cached(generations)))
    await response.write_eof()
    return response


def _cached(generations: Sequence[Generation]) -> int:
    return sum(generation.cached_tokens for generation in generations)
