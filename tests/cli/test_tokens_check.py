"""`warmroute tokens --check`: beside an emulated engine, and beside servers that answer wrongly or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tokenizer.requests_to_render import BARE_TOOL, CALL, HELLO, RESULT, SYSTEM, THANKS, THOUGHT, WEATHER
from warmroute.cli.main import main
from warmroute.emulator import EmulatorOptions, serve_engine
from warmroute.engine_model import EngineOptions
from warmroute.tokenizer import LocalTokenizer

CHAT: dict[str, Any] = {
    "model": "warmroute-tiny",
    "messages": [SYSTEM, HELLO, CALL, RESULT, THOUGHT, THANKS],
    "tools": [WEATHER, BARE_TOOL],
}
RENDER = "/v1/chat/completions/render"
Handler = Callable[[dict[str, Any]], tuple[int, Any]]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMROUTE_TOKENIZER", "warmroute-tiny")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def tiny() -> LocalTokenizer:
    return LocalTokenizer.load("warmroute-tiny")


def written(folder: Path, *bodies: Any) -> str:
    """The bodies as lines of a file."""
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    return str(file)


async def checked(capsys: pytest.CaptureFixture[str], url: str, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and text; the command has an event loop of its own, so it runs in a thread."""
    code = await asyncio.to_thread(main, ["tokens", "--check", url, "--json", *words])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert await asyncio.to_thread(main, ["tokens", "--check", url, *words]) == code
    return code, report, capsys.readouterr().out


@asynccontextmanager
async def answering(pages: Mapping[str, Handler], asked: list[tuple[str, Any, Any]]) -> AsyncIterator[str]:
    """A server with these pages, by path; it notes path, headers and body of what it is asked."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        asked.append((request.path, dict(request.headers), body))
        if request.path not in pages:
            return web.json_response({"detail": "Not Found"}, status=404)
        status, told = pages[request.path](body)
        return web.Response(status=status, body=told if isinstance(told, bytes) else json.dumps(told).encode())

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def ids_of(tiny: LocalTokenizer, text: str) -> list[int]:
    return list(tiny.encode_text(text, add_special_tokens=True))


def tokenized(tiny: LocalTokenizer, change: Callable[[list[int]], list[int]] = list) -> Handler:
    return lambda body: (200, {"tokens": (ids := change(ids_of(tiny, body["prompt"]))), "count": len(ids)})


async def test_an_emulated_engine_sees_the_same_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    completion = {"model": "warmroute-tiny", "prompt": ["a b", "c"]}
    file = written(tmp_path, CHAT, completion, {"model": "warmroute-tiny", "prompt": [1, 2]})
    async with serve_engine(EmulatorOptions(port=0, engine=EngineOptions(num_blocks=64), kv_events="off")) as engine:
        code, report, text = await checked(capsys, engine.url, file)
    assert code == 0
    assert report["counts"] == {"equal": 2, "given": 1}
    assert [result["verdict"] for result in report["results"]] == ["equal", "equal", "given"]
    pages = report["results"][1]["pages"]
    assert [(page["path"], page["prompt"], page["verdict"]) for page in pages[:2]] == [
        ("/tokenize", 0, "equal"),
        ("/tokenize", 1, "equal"),
    ]
    assert f"{file}:1" in text
    assert "2 equal, 1 given" in text


async def test_another_rendering_is_a_difference_with_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, CHAT)
    async with serve_engine(EmulatorOptions(port=0, engine=EngineOptions(num_blocks=64), kv_events="off")) as engine:
        code, report, text = await checked(capsys, engine.url, file, "--dialect", "sglang")
    (page,) = report["results"][0]["pages"]
    assert code == 1
    assert (page["verdict"], page["cause"]) == ("different", "equal with --dialect vllm")
    ours, theirs = (page[side][page["token"] - page["first"]]["id"] for side in ("ours", "engine"))
    assert ours != theirs
    assert "perhaps: equal with --dialect vllm" in text


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda ids: [0, *ids], "the engine puts <|endoftext|> before the prompt"),
        (lambda ids: ids[1:], "the engine does not put "),
        (lambda ids: [*ids[:3], 999_999, *ids[4:]], "it has another tokenizer"),
        (lambda ids: [token + 1 for token in ids], "they have nothing in common"),
        (lambda ids: ids[:-1], None),
    ],
)
async def test_wrong_ids_are_shown_with_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer, change: Any, cause: str | None
) -> None:
    file = written(tmp_path, {"prompt": "The quick brown fox"})
    ours = ids_of(tiny, "The quick brown fox")
    async with answering({"/tokenize": tokenized(tiny, change)}, []) as url:
        code, report, text = await checked(capsys, url, file)
    page = report["results"][0]["pages"][0]
    theirs = change(ours)
    assert code == 1
    assert page["tokens"] == {"ours": len(ours), "engine": len(theirs)}
    assert ours[: page["token"]] == theirs[: page["token"]]
    assert [piece["id"] for piece in page["ours"]] == ours[page["first"] :]
    assert [piece["id"] for piece in page["engine"]] == theirs[page["first"] :]
    assert cause in (page["cause"] or "") if cause else page["cause"] is None
    assert f"from token {page['token']} on" in text


async def test_a_date_that_the_engine_writes_otherwise_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    file = written(tmp_path, {"prompt": "Today is 2026-12-01."})
    yesterday = {"tokens": ids_of(tiny, "Today is 2026-11-30.")}
    async with answering({"/tokenize": lambda _: (200, yesterday)}, []) as url:
        _, report, _ = await checked(capsys, url, file)
    assert report["results"][0]["pages"][0]["cause"] == "date: '2026-12-01' here and '2026-11-30' there"


async def test_the_render_page_of_the_endpoint_counts_over_tokenize(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    body = {"messages": [HELLO]}
    ids = ids_of(tiny, tiny.render_chat([HELLO]))
    asked: list[tuple[str, Any, Any]] = []
    right: Handler = lambda _: (200, {"token_ids": ids, "request_id": "x"})  # noqa: E731
    wrong: Handler = lambda _: (200, {"tokens": ids[1:]})  # noqa: E731
    async with answering({RENDER: right, "/tokenize": wrong}, asked) as url:
        code, report, text = await checked(
            capsys, url, written(tmp_path, body), "--model", "served", "--header", "Authorization: Bearer k"
        )
    assert code == 0
    assert [page["verdict"] for page in report["results"][0]["pages"]] == ["different", "equal"]
    assert report["results"][0]["verdict"] == "equal"
    assert "what counts is the render page" in text
    assert {path for path, _, _ in asked} == {RENDER, "/tokenize"}
    assert all(headers["Authorization"] == "Bearer k" and sent["model"] == "served" for _, headers, sent in asked)
    assert next(sent for path, _, sent in asked if path == RENDER)["mm_payload"] == "none"


async def test_a_prompt_with_an_image_is_compared_up_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {"messages": [SYSTEM, {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]}]}
    file = written(tmp_path, body)
    assert await asyncio.to_thread(main, ["tokens", "--json", file]) == 0
    ours = json.loads(capsys.readouterr().out)["prompts"][0]["ids"]
    assert ours
    for theirs, code in (([*ours, 7, 7, 7], 0), ([*ours[:-1], 7], 1)):
        told = {"token_ids": theirs}
        async with answering({RENDER: lambda _, told=told: (200, told)}, []) as url:  # type: ignore[misc]
            found, report, _ = await checked(capsys, url, file)
        assert found == code
        assert [page["path"] for page in report["results"][0]["pages"]] == [RENDER]


async def test_what_cannot_be_compared_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    cases: list[tuple[Handler | None, str, str]] = [
        (None, "missing", "--enable-scale-out"),
        (lambda _: (403, {"error": "off"}), "missing", "--enable-scale-out"),
        (lambda _: (404, {"error": {"message": "The model `m` does not exist."}}), "refused", "The model `m` does not"),
        (lambda _: (400, {"error": {"message": "too \x1b[1mlong"}}), "refused", "too \\x1b[1mlong"),
        (lambda _: (500, b"oops"), "failed", "500: oops"),
        (lambda _: (200, b"<html>"), "failed", "is not understood"),
        (lambda _: (200, {"tokens": "no"}), "failed", "is not understood"),
    ]
    for handler, verdict, said in cases:
        pages = {} if handler is None else {"/tokenize": handler}
        async with answering(pages, []) as url:
            code, report, text = await checked(capsys, url, written(tmp_path, {"prompt": "x"}))
        assert (code, report["counts"]) == (2, {verdict: 1})
        assert said in text
        assert verdict in text


async def test_a_difference_outweighs_what_was_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, {"message": "no"}) if body["prompt"] == "x" else (200, {"tokens": [5]})

    async with answering({"/tokenize": answer}, []) as url:
        code, report, _ = await checked(capsys, url, written(tmp_path, {"prompt": "x"}, {"prompt": "y"}))
    assert code == 1
    assert report["counts"] == {"different": 1, "refused": 1}


async def test_bodies_that_are_told_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {**CHAT, "chat_template": "{{ 1 }}"})
    async with answering({RENDER: lambda _: (400, {"error": {"message": "untrusted"}})}, []) as url:
        code, report, text = await checked(capsys, url, file)
    assert code == 0
    assert report["counts"] == {"refused-by-both": 1}
    assert "a chat template of its own" in text
    async with answering({RENDER: lambda _: (200, {"token_ids": [1]})}, []) as url:
        code, report, text = await checked(capsys, url, file)
    assert (code, report["counts"]) == (2, {"untold": 1})
    assert "--trust-request-chat-template" in text


async def test_batches_of_prompts_are_asked_for_one_by_one_and_rendered_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    pages: dict[str, Handler] = {
        "/tokenize": tokenized(tiny),
        "/v1/completions/render": lambda body: (200, [{"token_ids": ids_of(tiny, text)} for text in body["prompt"]]),
    }
    file = written(tmp_path, {"prompt": ["a b", "c d e"]})
    async with answering(pages, []) as url:
        code, report, _ = await checked(capsys, url, file)
        assert (code, len(report["results"][0]["pages"])) == (0, 4)
    pages["/v1/completions/render"] = lambda _: (200, [{"token_ids": [1]}])
    async with answering(pages, []) as url:
        _, report, _ = await checked(capsys, url, file)
    assert report["results"][0]["pages"][-1]["detail"] == "it answers for 1 prompts, where 2 were asked for"


async def test_conversations_go_to_sglang_as_they_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, Any, Any]] = []
    body = {"messages": [HELLO], "model": "m", "temperature": 0.5}
    async with answering({"/tokenize": lambda _: (200, {"tokens": [1]})}, asked) as url:
        await checked(capsys, url, written(tmp_path, body), "--dialect", "sglang")
    assert [(path, sent) for path, _, sent in asked] == [("/tokenize", body)] * 2


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://127.0.0.1:1", "no engine answers at http://127.0.0.1:1"), ("nonsense", "write http://HOST:PORT")],
)
def test_nobody_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, said: str) -> None:
    file = written(tmp_path, {"prompt": "x"}, {"prompt": "y"}, CHAT)
    assert main(["tokens", "--check", url, file]) == 2
    assert said in capsys.readouterr().err


def test_a_header_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {"prompt": "x"})
    assert main(["tokens", "--check", "http://127.0.0.1:1", "--header", "nonsense", file]) == 2
    assert "write --header 'NAME: VALUE'" in capsys.readouterr().err
