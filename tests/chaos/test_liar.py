"""A liar does on the wire what the name of its lie says, and tells the truth otherwise."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from chaos.liar import Liar, liar
from chaos.lies import EVIL, Lie
from chaos.wire import Response, connect, head, read_response

_ANSWER = json.dumps({"id": "a", "text": "truth " * 400}).encode()


async def test_honest_answers_come_through_on_one_connection() -> None:
    async with _liar(Lie.HONEST) as made:
        answers = await _ask(made, 3)
    assert [(answer.status, answer.body, answer.whole) for answer in answers] == [(200, _ANSWER, True)] * 3
    assert made.told == {Lie.HONEST: 3}


@pytest.mark.parametrize("lie", [Lie.RESET, Lie.CLOSE, Lie.GARBAGE, Lie.HALF_HEAD])
async def test_no_answer(lie: Lie) -> None:
    async with _liar(lie) as made:
        (answer,) = await _ask(made, 1)
    assert not answer.whole
    assert answer.body == b""


@pytest.mark.parametrize("lie", [Lie.HALF_ANSWER, Lie.HALF_RESET, Lie.LONG_LENGTH])
async def test_an_answer_that_breaks_off(lie: Lie) -> None:
    async with _liar(lie) as made:
        (answer,) = await _ask(made, 1)
    assert answer.status == 200
    assert not answer.whole
    assert answer.headers["x-chaos-lie"] == lie


async def test_a_short_length_and_a_surplus_leave_bytes_behind_a_whole_answer() -> None:
    async with _liar(Lie.SHORT_LENGTH) as made:
        (answer,) = await _ask(made, 1)
    assert answer.whole
    assert _ANSWER.startswith(answer.body)
    assert answer.body != _ANSWER
    async with _liar(Lie.SURPLUS) as made:
        truth, surplus = await _ask(made, 1, answers=2)
    assert (truth.body, surplus.body) == (_ANSWER, EVIL)


async def test_the_last_answer_is_whole_and_its_connection_ends_unannounced() -> None:
    async with _liar(Lie.LAST) as made:
        (answer,) = await _ask(made, 1)
        assert answer.body == _ANSWER
        assert not answer.closes
        first, second = await _ask(made, 2)
    assert first.whole
    assert second.status == 0


@pytest.mark.parametrize(("lie", "status"), [(Lie.BUSY_429, 429), (Lie.BUSY_503, 503), (Lie.BROKEN_500, 500)])
async def test_a_refusal_keeps_the_connection(lie: Lie, status: int) -> None:
    async with _liar(lie) as made:
        answers = await _ask(made, 2)
    assert [answer.status for answer in answers] == [status, status]
    assert all("message" in json.loads(answer.body)["error"] for answer in answers)


async def test_hints_come_before_the_answer() -> None:
    async with _liar(Lie.HINTS) as made:
        (answer,) = await _ask(made, 1)
    assert answer.interim == [103]
    assert answer.body == _ANSWER


async def test_a_look_is_answered_truly_and_there_are_no_metrics() -> None:
    async with _liar(Lie.GARBAGE) as made:
        (look,) = await _ask(made, 1, path="/health", method="GET")
        (metrics,) = await _ask(made, 1, path="/metrics", method="GET")
    assert (look.status, look.body) == (200, _ANSWER)
    assert metrics.status == 404
    assert not made.told


@asynccontextmanager
async def _liar(lie: Lie) -> AsyncIterator[Liar]:
    server = await asyncio.start_server(_truth, "127.0.0.1", 0)
    async with server, liar(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", random.Random(1)) as made:
        made.lie = lie
        yield made


async def _truth(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The engine behind: one answer in chunks, then the end of the connection."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
    writer.write(b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(_ANSWER), _ANSWER))
    await writer.drain()
    writer.close()


async def _ask(
    made: Liar, times: int, *, answers: int = 1, path: str = "/v1/completions", method: str = "POST"
) -> list[Response]:
    """What comes back of `times` requests, one after the other on one connection, each with that many `answers`."""
    connection = await connect(made.url)
    came = []
    for _ in range(times):
        connection.writer.write(head(path, 0, method=method))
        came += [await read_response(connection.reader, method=method) for _ in range(answers)]
    await connection.close()
    return came
