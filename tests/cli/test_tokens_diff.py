"""`warmroute tokens --diff`: where two prompts part, in which field, what that costs and what it looks like."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tokenizer.requests_to_render import BARE_TOOL, CALL, HELLO, RESULT, THANKS, THOUGHT, WEATHER
from warmroute.cli.main import main
from warmroute.cli.tokens_hint import hint_from_text

SYSTEM = {"role": "system", "content": "You are a helpful assistant. Today is 2026-12-01. Be brief, kind and exact."}
UUID = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
BODY: dict[str, Any] = {"messages": [SYSTEM, HELLO, CALL, RESULT, THOUGHT, THANKS], "tools": [WEATHER, BARE_TOOL]}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARMROUTE_TOKENIZER", "warmroute-tiny")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, name: str, body: Any) -> str:
    file = folder / name
    file.write_text(json.dumps(body), encoding="utf-8")
    return str(file)


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    body = copy.deepcopy(BODY)
    change(body)
    return body


def compared(
    folder: Path, capsys: pytest.CaptureFixture[str], a: Any, b: Any, *words: str
) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and text."""
    files = [written(folder, "a.json", a), written(folder, "b.json", b)]
    code = main(["tokens", "--diff", "--json", *files, *words])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert main(["tokens", "--diff", *files, *words]) == code
    return code, report, capsys.readouterr().out


def reversed_keys(value: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(value.items()))


def of_message(index: int, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["messages"][index].update(fields)


@pytest.mark.parametrize(
    ("change", "field", "role", "hint"),
    [
        (of_message(0, content=SYSTEM["content"].replace("12-01", "12-02")), "messages[0].content", "system", "date"),
        (
            of_message(0, content=SYSTEM["content"].replace(" kind", "  kind")),
            "messages[0].content",
            "system",
            "white-space",
        ),
        (of_message(1, content=" Hello, all."), "messages[1].content", "user", None),
        (of_message(5, role="assistant"), "messages[5].role", "assistant", None),
        (of_message(5, content=[{"type": "text", "text": "Thanks. No."}]), "messages[5].content[0].text", "user", None),
        (
            lambda body: body["messages"][2]["tool_calls"][0]["function"].update(
                arguments='{"unit": "fahrenheit", "city": "Athens"}'
            ),
            "messages[2].tool_calls[0].function.arguments.unit",
            "assistant",
            None,
        ),
        (lambda body: body["tools"].reverse(), "tools[0].function.name", None, "tool-order"),
        (
            lambda body: body["tools"][0]["function"].update(
                parameters=reversed_keys(WEATHER["function"]["parameters"])  # type: ignore[index]
            ),
            "tools[0].function.parameters.required",
            None,
            "key-order",
        ),
        (lambda body: body["messages"].__delitem__(slice(1, 4)), None, None, "left-out"),
    ],
    ids=["date", "space", "text", "role", "part", "arguments", "tools", "keys", "left out"],
)
def test_the_place_is_named_by_the_field_of_the_request(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Any,
    field: str | None,
    role: str | None,
    hint: str | None,
) -> None:
    code, report, text = compared(tmp_path, capsys, BODY, changed(change))
    assert code == 1
    assert report["diverges"]
    side = report["b"]
    if field is not None:
        # Arguments of a call are found whole or by their parts, as the template writes them.
        assert field.startswith(side["field"])
        assert (side["role"], side["message"] is None) == (role, role is None)
        assert side["field"] in text
    assert (report["hint"] or {}).get("kind") == hint
    if hint is not None:
        assert f"looks like {hint}" in text
        assert report["hint"]["advice"] in text


def test_numbers_of_tokens_blocks_characters_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(of_message(0, content=SYSTEM["content"].replace("12-01", "12-02")))
    _, report, text = compared(tmp_path, capsys, BODY, other, "--block-size", "8")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    prompts = []
    for file in files:
        assert main(["tokens", "--json", "--block-size", "8", file]) == 0
        prompts.append(json.loads(capsys.readouterr().out)["prompts"][0])
    first = next(i for i, (x, y) in enumerate(zip(prompts[0]["ids"], prompts[1]["ids"], strict=True)) if x != y)
    shared = sum(x == y for x, y in zip(prompts[0]["blocks"], prompts[1]["blocks"], strict=True))
    assert report["shared_tokens"] == report["at"]["token"] == first
    assert report["shared_blocks"] == report["at"]["block"] == shared == first // 8
    assert report["at"]["token_in_block"] == first % 8
    assert report["lost_blocks"] == len(prompts[0]["blocks"]) - shared
    before = prompts[0]["text"][: report["at"]["text_offset"]]
    assert before.endswith("2026-12-0")
    assert report["a"]["line"] == before.count("\n") + 1
    assert report["a"]["column"] == len(before.rpartition("\n")[2]) + 1
    assert SYSTEM["content"][: report["a"]["field_offset"]].endswith("2026-12-0")
    assert report["a"]["offset"] == prompts[0]["pieces"][first]["start"]
    assert [piece["id"] for piece in report["b"]["after"]] == prompts[1]["ids"][first : first + 16]
    assert '>>>"1"<<<' in text
    assert '>>>"2"<<<' in text


def test_a_prompt_that_goes_on_from_another_does_not_diverge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = changed(lambda body: body["messages"].extend([{"role": "assistant", "content": "Warm."}, HELLO]))
    code, report, text = compared(tmp_path, capsys, BODY, longer)
    assert code == 0
    assert (report["diverges"], report["hint"], report["lost_blocks"]) == (False, None, 0)
    assert report["shared_tokens"] == report["a"]["tokens"] < report["b"]["tokens"]
    assert "where A ends" in text
    code, report, text = compared(tmp_path, capsys, BODY, BODY)
    assert (code, report["shared_blocks"]) == (0, report["a"]["blocks"])
    assert "all tokens are the same" in text


def test_other_salts_share_no_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, report, text = compared(tmp_path, capsys, BODY, {**BODY, "cache_salt": "mine"})
    assert code == 1
    assert (report["diverges"], report["same_namespace"], report["shared_blocks"]) == (False, False, 0)
    assert report["lost_blocks"] == report["a"]["blocks"]
    assert "no block is shared" in text


def test_equal_messages_are_told_apart_by_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"role": role, "content": text} for role, text in [("user", "go on"), ("assistant", "yes")] * 5]
    other = copy.deepcopy(turns)
    other[6]["content"] = "go in"
    _, report, _ = compared(tmp_path, capsys, {"messages": turns}, {"messages": other})
    assert (report["a"]["field"], report["b"]["field"]) == ("messages[6].content", "messages[6].content")
    assert report["a"]["field_offset"] == 3


def test_what_the_template_writes_is_no_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(
        "{% for message in messages %}<{{ loop.index }}{{ '?' if wide else '!' }}>{{ message.content }}{% endfor %}"
    )
    wide = {**BODY, "chat_template_kwargs": {"wide": True}}
    _, report, text = compared(tmp_path, capsys, BODY, wide, "--chat-template", str(template))
    assert (report["a"]["field"], report["a"]["message"], report["a"]["role"]) == (None, 0, "system")
    assert "in what the chat template writes around messages[0] (system)" in text


@pytest.mark.parametrize("endpoint", ["/v1/messages", "/v1/responses", "/v1/completions"])
def test_bodies_of_other_endpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str], endpoint: str) -> None:
    def body(word: str) -> dict[str, Any]:
        bodies: dict[str, dict[str, Any]] = {
            "/v1/messages": {"system": "Be kind.", "messages": [{"role": "user", "content": f"I say {word}"}]},
            "/v1/responses": {"instructions": "Be kind.", "input": [{"role": "user", "content": f"I say {word}"}]},
            "/v1/completions": {"prompt": f"I say {word}"},
        }
        return bodies[endpoint]

    _, report, _ = compared(tmp_path, capsys, body("one"), body("two"), "--path", endpoint)
    fields = {"/v1/messages": "messages[0].content", "/v1/responses": "input[0].content", "/v1/completions": "prompt"}
    assert report["a"]["field"] == fields[endpoint]
    assert report["a"]["field_offset"] == len("I say ")


def test_two_bodies_with_tokens_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "a.json", BODY)
    assert main(["tokens", "--diff", file]) == 2
    assert "--diff compares two bodies, not 1" in capsys.readouterr().err
    untold = written(tmp_path, "u.json", {"messages": [{"role": "user", "content": 5}]})
    assert main(["tokens", "--diff", file, untold]) == 2
    assert "u.json cannot be compared: match none (unreadable)" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["tokens", "--diff", "--check", "http://127.0.0.1:1", file, file])
    assert stopped.value.code == 2


def test_colours_mark_the_token_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [written(tmp_path, name, {"prompt": f"a\nb {name}"}) for name in ("1", "2")]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["tokens", "--diff", *files]) == 1
    text = capsys.readouterr().out
    assert "\x1b[7m1" in text
    assert "⏎" in text


@pytest.mark.parametrize(
    ("a", "b", "kind", "found"),
    [
        ("at 2026-12-01T10:00:00Z.", "at 2026-12-01T10:00:07Z.", "date and time", "2026-12-01T10:00:07Z"),
        ("on 1 December 2026, go", "on 2 December 2026, go", "date", "2 December 2026"),
        ("on Tuesday, December 1, 2026 we", "on Wednesday, December 2, 2026 we", "date", "Wednesday, December 2, 2026"),
        ("is 01/12/2026.", "is 02/12/2026.", "date", "02/12/2026"),
        ("it is 10:59 now", "it is 11:00 now", "time", "11:00"),
        ("now=1764547200;", "now=1764547201;", "timestamp", "1764547201"),
        ("turn 9 of", "turn 10 of", "counter", "10"),
        ("turn 1", "turn 12", "counter", "12"),
        ("has 1000000 files", "has 2000 files", "number", "2000"),
        ("id 1b4e28ba-2fa1-11d2-883f-0016d3cca427", f"id {UUID}", "uuid", UUID),
        ("call toolu_01A9xyz12", "call toolu_01B7abc34", "identifier", "toolu_01B7abc34"),
        ("a\r\nb c d", "a\nb c d", "white-space", "\nb c d"),
        ("cafe\u0301 au lait", "caf\u00e9 au lait", "unicode-form", "\u00e9 au lait"),
        ("one thing", "two things", None, None),
    ],
)  # fmt: skip
def test_what_a_difference_looks_like(a: str, b: str, kind: str | None, found: str | None) -> None:
    at = next(i for i in range(len(a)) if a[i : i + 1] != b[i : i + 1]) if not b.startswith(a) else len(a)
    hint = hint_from_text(a, b, at)
    assert (hint and hint.kind, hint and hint.b) == (kind, found)
