"""What keeps equal prompts apart: model, adapter, salt; what templates and addresses do; prefixes within a block."""

from dataclasses import replace

import pytest

from doctor.requests_to_diagnose import MANY, RULES, asked, chat, conversation, diagnosed, only, question
from warmroute.doctor import Kind, Logged


@pytest.mark.parametrize(
    ("kind", "names", "field"),
    [
        (Kind.MODEL, ("qwen3-32b", "qwen3-32b-2026-01"), "model"),
        (Kind.ADAPTER, ("qwen3:invoices", "qwen3:travel"), "model"),
        (Kind.ADAPTER, ("invoices", "travel"), "lora_path"),
    ],
)
def test_a_name_that_changes_to_and_fro(kind: Kind, names: tuple[str, str], field: str) -> None:
    only([chat(RULES, question(n), **{field: names[n % 2]}) for n in range(MANY)], kind, field)


def test_a_model_that_is_changed_for_good_is_no_finding() -> None:
    requests = [chat(RULES, question(n), model="new" if n > 5 else "old") for n in range(MANY)]
    assert diagnosed(requests).findings == []


def test_a_salt_of_each_request() -> None:
    finding = only([chat(RULES, question(n), cache_salt=f"salt-{n}") for n in range(MANY)], Kind.SALT, "cache_salt")
    assert "cache_salt" not in finding.fix.apply(chat(RULES, "Why?", cache_salt="s").body)


def test_a_salt_of_each_tenant_is_meant() -> None:
    requests = [
        replace(chat(RULES, question(n), cache_salt=f"tenant-{n % 3}"), user=f"user-{n % 3}") for n in range(3 * MANY)
    ]
    assert diagnosed(requests).findings == []


def test_a_date_that_a_template_has_written() -> None:
    def prompt(n: int) -> str:
        dates = f"Cutting Knowledge Date: December 2023\nToday Date: {n + 1} Jul 2026"
        head = f"<|start_header_id|>system<|end_header_id|>\n\n{dates}\n\n{RULES}<|eot_id|>"
        return f"{head}<|start_header_id|>user<|end_header_id|>\n\n{question(n)}<|eot_id|>"

    finding = only([Logged({"model": "m", "prompt": prompt(n)}) for n in range(MANY)], Kind.TEMPLATE_DATE, "prompt")
    assert finding.left == "1 Jul 2026"


def test_a_date_that_a_template_is_handed() -> None:
    requests = [
        chat(RULES, question(n), chat_template_kwargs={"date_string": f"{n + 1} Jul 2026"}) for n in range(MANY)
    ]
    only(requests, Kind.TEMPLATE_DATE, "chat_template_kwargs.date_string")


def test_an_address_that_is_signed() -> None:
    def system(n: int) -> str:
        return f"The manual: https://cdn.example.com/manual.pdf?sig={n * 7919:x}a3&expires={1_772_460_475 + n}\n{RULES}"

    finding = only(asked(system), Kind.URL, "messages[0].content")
    fixed = finding.fix.apply(chat(system(2), "Why?").body)["messages"]
    assert fixed[0]["content"].startswith("The manual: https://cdn.example.com/manual.pdf\n")
    assert fixed[1]["content"].endswith(f"expires={1_772_460_475 + 2}")


def test_an_image_whose_address_is_signed_anew_each_turn() -> None:
    def turn(n: int) -> Logged:
        image = {"type": "image_url", "image_url": {"url": f"https://cdn.example.com/cat.png?sig={n * 7919:x}"}}
        messages = conversation(n)
        messages[0]["content"] = [{"type": "text", "text": messages[0]["content"]}, image]
        return Logged({"model": "m", "messages": messages})

    only([turn(n) for n in range(MANY)], Kind.URL, "messages[0].content[1].image_url.url")


def test_a_prefix_within_a_block() -> None:
    report = diagnosed(asked(lambda _: "You are a terse assistant."))
    assert [found.kind for found in report.findings] == [Kind.SHORT_PREFIX]
    assert report.cached_share == 0.0
    assert report.findings[0].cached_share_after > 0.1


def test_a_long_prefix_that_ends_within_a_block_is_no_finding() -> None:
    assert diagnosed(asked(lambda _: RULES)).findings == []
