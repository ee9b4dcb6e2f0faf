"""The same text in another form."""

import json
import unicodedata

from doctor.requests_to_diagnose import MANY, RULES, asked, chat, diagnosed, only, prose, question
from warmroute.doctor import Kind

_LINES = RULES.replace(". ", ".\n")
_FRENCH = "Réponds toujours à l'élève avec précision, même à Noël. " * 20
_PROFILE: dict[str, object] = {
    "name": "report",
    "limits": {"rows": 40, "columns": 12},
    "style": prose(54, "style"),
    "until": "the end of all",
}


def _rotated(value: dict[str, object], by: int) -> dict[str, object]:
    names = list(value)
    by %= len(names)
    return {name: value[name] for name in names[by:] + names[:by]}


def test_line_ends() -> None:
    only(asked(lambda n: _LINES.replace("\n", "\r\n") if n % 2 else _LINES), Kind.LINE_ENDINGS, "messages[0].content")


def test_composed_and_decomposed_characters() -> None:
    forms = [unicodedata.normalize(form, _FRENCH) for form in ("NFC", "NFD")]
    only(asked(lambda n: forms[n % 2]), Kind.UNICODE_FORM, "messages[0].content")


def test_white_space() -> None:
    only(asked(lambda n: RULES.replace(". ", ". " + " " * (n % 3))), Kind.WHITE_SPACE, "messages[0].content")


def test_keys_of_json_in_a_text() -> None:
    finding = only(
        asked(lambda n: f"Settings: {json.dumps(_rotated(_PROFILE, n))}\n{RULES}"),
        Kind.KEY_ORDER,
        "messages[0].content",
    )
    fixed = finding.fix.apply(chat(f"Settings: {json.dumps(_PROFILE)}\n{RULES}", "Why?").body)
    assert json.loads(fixed["messages"][0]["content"].removeprefix("Settings: ").partition("\n")[0]) == _PROFILE


def test_white_space_of_json_in_a_text() -> None:
    only(
        asked(lambda n: f"Settings: {json.dumps(_PROFILE, indent=n % 3 or None)}\n{RULES}"),
        Kind.WHITE_SPACE,
        "messages[0].content",
    )


def test_keys_of_a_tool() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

    def tools(n: int) -> list[dict[str, object]]:
        return [
            {"type": "function", "function": {"name": "f", "description": RULES, "parameters": _rotated(schema, n)}}
        ]

    requests = [chat(RULES, question(n), tools=tools(n)) for n in range(MANY)]
    only(requests, Kind.KEY_ORDER, "tools[0].function.parameters")


def test_the_form_of_what_is_asked_is_nobodys_fault() -> None:
    requests = [chat(RULES, question(n).replace(" ", "  ") if n % 2 else f"{question(n)}\r\n") for n in range(MANY)]
    assert diagnosed(requests).findings == []
