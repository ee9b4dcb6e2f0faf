"""`warmroute tokens BODY`: what it shows, in which form, and how it exits."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from warmroute.block import Namespace, hash_blocks
from warmroute.cli.main import main
from warmroute.openai_api import endpoint_of, parse_prompt
from warmroute.tokenizer import LocalTokenizer

TINY = ["--tokenizer", "warmroute-tiny"]
CHAT = {
    "model": "warmroute-tiny",
    "messages": [
        {"role": "system", "content": "You are\ta helpful assistant.\nBe kind."},
        {"role": "user", "content": 'Say "你好" \N{GRINNING FACE}\u00a0\x1b[31m'},
    ],
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARMROUTE_TOKENIZER", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def tiny() -> LocalTokenizer:
    return LocalTokenizer.load("warmroute-tiny")


def written(folder: Path, body: Any, name: str = "body.json") -> str:
    file = folder / name
    file.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    return str(file)


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["tokens", *TINY, *words]) == code
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(shown(capsys, "--json", *words, code=code))
    return report


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["tokens", *words]) == 2
    return capsys.readouterr().err


def test_json_holds_the_ids_and_blocks_of_the_router_and_the_text_unchanged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tiny: LocalTokenizer
) -> None:
    report = told(capsys, written(tmp_path, CHAT))
    prompt = parse_prompt(endpoint_of("/v1/chat/completions"), json.dumps(CHAT).encode())
    ids = list(tiny.encode(prompt).ids)
    (told_prompt,) = report["prompts"]
    assert (report["match"], report["reason"], report["endpoint"]) == ("exact", None, "chat")
    assert told_prompt["ids"] == [piece["id"] for piece in told_prompt["pieces"]] == ids
    assert told_prompt["text"] == tiny.render(prompt.contents[0])  # type: ignore[arg-type]
    assert "".join(piece["bytes"] for piece in told_prompt["pieces"]) == told_prompt["text"].encode().hex()
    hashes = [f"{each:016x}" for each in hash_blocks(ids, 16, Namespace())]
    assert [block["hash"] for block in told_prompt["blocks"]] == hashes
    assert [(block["first"], block["end"]) for block in told_prompt["blocks"]] == [
        (16 * i, 16 * i + 16) for i in range(len(hashes))
    ]
    assert told_prompt["tail_tokens"] == len(ids) - 16 * len(hashes)
    assert "space" in report["seams"]


def test_every_token_has_its_line_and_every_block_its_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, CHAT)
    report, text = told(capsys, file), shown(capsys, file)
    (told_prompt,) = report["prompts"]
    for index, piece in enumerate(told_prompt["pieces"]):
        assert f"\n{index:>8} {piece['id']:>8} " in text
    for block in told_prompt["blocks"]:
        assert block["hash"] in text
    assert f"{told_prompt['tail_tokens']} of 16, never cached" in text
    assert '"<|im_start|>" special' in text
    assert "match exact" in text


def test_nothing_reaches_the_terminal_that_it_would_act_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"model": "\x1b[2J", "prompt": "a\x1b[31mb\x07\u202e\x9b\x00 [bold]"}
    file = written(tmp_path, body)
    text = shown(capsys, file)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert '"\\x1b"' in text
    assert "[" in text


def test_colours_show_white_space_and_are_left_out_where_they_are_not_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, CHAT)
    plain = shown(capsys, file)
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shown(capsys, file)
    assert "\x1b[" in coloured
    assert all(mark in coloured for mark in "·⏎→")
    assert "\N{GRINNING FACE}" in coloured  # a character of several tokens, whole
    assert "\x1b[31mb" not in coloured
    assert json.loads(shown(capsys, file, "--json"))["prompts"][0]["text"].count("\t") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(capsys, file) == plain


def test_long_prompts_are_shortened_unless_told_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {"prompt": "one two three four " * 200})
    short, full = shown(capsys, file), shown(capsys, file, "--full")
    total = told(capsys, file)["tokens"]
    assert "(--full shows them)" in short
    assert "(--full" not in full
    assert f"\n{total - 1:>8} " in short
    assert all(f"\n{index:>8} " in full for index in range(total))
    large = shown(capsys, file, "--block-size", "4096")
    assert f"{total} of 4096, never cached" in large
    assert f"... {total - 48:,} tokens" in large


def test_a_plain_text_is_the_prompt_of_a_completion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, '{"messages": []} is text\n', "prompt.txt")
    assert told(capsys, "--text", file)["prompts"][0]["text"] == '{"messages": []} is text\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ö".encode())))
    assert told(capsys, "--text", "-")["prompts"][0]["text"] == "ö"


def test_several_bodies_come_from_lines_and_from_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = {"custom_id": "x", "method": "POST", "url": "/v1/embeddings", "body": {"input": "c"}}
    lines = [json.dumps({"prompt": "a"}), "", json.dumps(CHAT), json.dumps(batch)]
    file = written(tmp_path, "\n".join(lines), "log.jsonl")
    reports = [json.loads(line) for line in shown(capsys, "--json", file).splitlines()]
    assert [report["name"] for report in reports] == [f"{file}:1", f"{file}:3", f"{file}:4"]
    assert [report["endpoint"] for report in reports] == ["completions", "chat", "embeddings"]
    assert f"{file}:3" in shown(capsys, file)


def test_ids_that_are_given_are_shown_with_what_they_stand_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = told(capsys, written(tmp_path, {"prompt": [[1, 3825], [2]]}), "--block-size", "2")
    first, second = report["prompts"]
    assert (first["text"], second["text"]) == ("<|im_start|>system", "<|im_end|>")
    assert len(first["blocks"]) == 1
    assert report["tokens"] == 3


def test_namespaces_change_the_hashes_and_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {**CHAT, "cache_salt": "mine"})
    plain = told(capsys, written(tmp_path, CHAT, "plain.json"))["prompts"][0]["blocks"]
    own, other = told(capsys, file), told(capsys, file, "--cache-salt", "theirs", "--adapter", "lora")
    assert own["namespace"] == {"adapter": None, "salt": "mine"}
    assert other["namespace"] == {"adapter": "lora", "salt": "theirs"}
    assert own["prompts"][0]["blocks"][0]["hash"] != plain[0]["hash"] != other["prompts"][0]["blocks"][0]["hash"]
    assert "namespace: salt mine" in shown(capsys, file)


def test_a_prompt_with_an_image_is_told_up_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [{"type": "text", "text": "What is this?"}, IMAGE]
    file = written(tmp_path, {"messages": [CHAT["messages"][0], {"role": "user", "content": parts}]})
    report, text = told(capsys, file), shown(capsys, file)
    assert (report["match"], report["reason"]) == ("text-prefix", "multimodal")
    assert not report["prompts"][0]["complete"]
    assert "match text-prefix (multimodal)" in text
    assert "image" in text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({**CHAT, "chat_template": "{{ messages }}"}, "client-template"),
        ({"messages": [{"role": "user", "content": 5}]}, "unreadable"),
        ({"prompt": "x", "truncate_prompt_tokens": 3}, "truncated"),
    ],
)
def test_what_cannot_be_told_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: dict[str, Any], reason: str
) -> None:
    file = written(tmp_path, body)
    report = told(capsys, file, code=1)
    assert (report["match"], report["reason"], report["prompts"]) == ("none", reason, [])
    assert f"match none ({reason})" in shown(capsys, file, code=1)


def test_templates_of_requests_and_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "{% for message in messages %}[{{ message.content }}]{% endfor %}"
    trusted = written(tmp_path, {**CHAT, "chat_template": template})
    text = told(capsys, trusted, "--trust-request-chat-template")["prompts"][0]["text"]
    assert text.startswith("[You are\ta helpful")
    file = written(tmp_path, template, "own.jinja")
    assert told(capsys, written(tmp_path, CHAT), "--chat-template", file)["prompts"][0]["text"] == text


def test_the_dialect_and_the_endpoint_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    anthropic = {"system": "Be kind.", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    file = written(tmp_path, anthropic)
    assert told(capsys, file)["endpoint"] == "chat"
    messages = told(capsys, file, "--path", "/v1/messages")
    assert messages["endpoint"] == "messages"
    assert "Be kind." in messages["prompts"][0]["text"]
    continued = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    texts = {
        dialect: told(capsys, written(tmp_path, continued), "--dialect", dialect)["prompts"][0]["text"]
        for dialect in ("vllm", "sglang")
    }
    assert texts["vllm"] != texts["sglang"]


def test_the_tokenizer_comes_from_the_variable_of_serve_and_by_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, CHAT)
    monkeypatch.setenv("WARMROUTE_TOKENIZER", "other=/nowhere,warmroute-tiny=warmroute-tiny")
    assert main(["tokens", file]) == 0
    assert "match exact" in capsys.readouterr().out
    unnamed = written(tmp_path, {**CHAT, "model": "third"}, "third.json")
    assert "no tokenizer is named for 'third', only for other, warmroute-tiny" in refused(capsys, unnamed)


def test_wrong_usage_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, empty = written(tmp_path, CHAT), written(tmp_path, " \n", "empty")
    assert "give --tokenizer SOURCE, or WARMROUTE_TOKENIZER" in refused(capsys, file)
    assert "there is no folder" in refused(capsys, file, "--tokenizer", "/nowhere")
    assert "cannot read" in refused(capsys, str(tmp_path / "absent"), *TINY)
    assert "is empty" in refused(capsys, empty, *TINY)
    assert "--text takes a file as a plain text" in refused(capsys, written(tmp_path, "no JSON", "t"), *TINY)
    assert "name its endpoint with --path" in refused(capsys, written(tmp_path, {"x": 1}, "x"), *TINY)
    assert "takes no prompt" in refused(capsys, file, *TINY, "--path", "/v1/models")
    assert "exclude each other" in refused(capsys, file, *TINY, "--path", "/v1/completions", "--text")
    assert "block_size must lie between" in refused(capsys, file, *TINY, "--block-size", "0")
    (tmp_path / "latin").write_bytes(b"\xff")
    assert "not a text in UTF-8" in refused(capsys, str(tmp_path / "latin"), *TINY, "--text")
