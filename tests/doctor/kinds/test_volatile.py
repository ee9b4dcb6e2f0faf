"""Dates, ids, counters and users' data in front of shared text, and the same where they cost nothing."""

from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest

from doctor.requests_to_diagnose import MANY, RULES, asked, chat, conversation, diagnosed, only, prose, question
from warmroute.doctor import Kind, Logged

_PEOPLE = ("Maria Lopez", "John Doe", "Kim Lee", "Ann Ray", "Bob Hu")


def _digits(number: int, length: int) -> str:
    return f"{Random(number).getrandbits(4 * length):0{length}x}"


def _uuid(number: int) -> str:
    return str(UUID(int=Random(number).getrandbits(128), version=4))


def _ulid(number: int) -> str:
    return "01" + "".join(Random(number).choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=24))


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Kind.DATE_TIME, lambda n: f"Current time: 2026-03-{n + 1:02d}T10:{n:02d}:00Z"),
        (Kind.DATE_TIME, lambda n: f"Today is March {n + 1}, 2026."),
        (Kind.DATE_TIME, lambda n: f"Heute ist der {n + 1}. März 2026."),
        (Kind.DATE_TIME, lambda n: f"Nous sommes le mardi {n + 1} mars 2026 à 14h{n:02d}."),
        (Kind.DATE_TIME, lambda n: f"今日は2026年3月{n + 1}日です。"),
        (Kind.DATE_TIME, lambda n: f"Сегодня {n + 1} марта 2026 г."),  # noqa: RUF001
        (Kind.DATE_TIME, lambda n: f"اليوم هو {n + 1} مارس 2026".translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩"))),
        (Kind.DATE_TIME, lambda n: f"आज {n + 1} मार्च 2026 है।"),
        (Kind.DATE_TIME, lambda n: f"It is now 14:{n:02d}:31."),
        (Kind.EPOCH, lambda n: f"Now: {1_772_460_475 + 61 * n}"),
        (Kind.EPOCH, lambda n: f"now_ms={1_772_460_475_123 + 61_007 * n}"),
        (Kind.UUID, lambda n: f"Request: {_uuid(n)}"),
        (Kind.ULID, lambda n: f"Request: {_ulid(n)}"),
        (Kind.HEX_ID, lambda n: f"Build {_digits(n, 12)}"),
        (Kind.HEX_ID, lambda n: f"Request req_{_digits(n, 16)}"),
        (Kind.TRACE_ID, lambda n: f"traceparent: 00-{_digits(n, 32)}-{_digits(n, 16)}-01"),
        (Kind.TRACE_ID, lambda n: f"trace_id={_digits(n, 32)}"),
        (Kind.COUNTER, lambda n: f"Request number {4_017 + 3 * n} of today"),
        (Kind.USER_DATA, lambda n: f"The user is {_PEOPLE[n % 5]}."),
        (Kind.USER_DATA, lambda n: f"Reply to {'abcdefghij'[n]}@example.org when done."),
    ],
)
def test_a_line_in_front_is_named_and_moved(kind: Kind, line: Callable[[int], str]) -> None:
    finding = only(asked(lambda number: f"{line(number)}\n{RULES}"), kind, "messages[0].content")
    moved = finding.fix.apply(chat(f"{line(3)}\n{RULES}", "Why?").body)
    assert moved["messages"][0]["content"] == RULES
    assert moved["messages"][1]["content"] == f"Why?\n\n{line(3)}"
    assert finding.char_offset < 60
    assert finding.block <= 3


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"Current time: 2026-03-{n + 1:02d}T10:{n:02d}:00Z",
        lambda n: f"Request: {_uuid(n)}",
        lambda n: f"Request number {4_017 + n}",
    ],
)
def test_what_stands_behind_all_shared_text_costs_nothing(line: Callable[[int], str]) -> None:
    assert diagnosed(asked(lambda number: f"{RULES}\n{line(number)}")).findings == []
    assert diagnosed([chat(RULES, f"{question(number)}\n{line(number)}") for number in range(MANY)]).findings == []


def test_what_is_the_same_in_all_requests_is_no_finding() -> None:
    head = (
        f"Released on 2026-03-03 as {_uuid(1)}, build {_digits(1, 12)}, trace {_digits(2, 32)}, call +1 555 0100 200."
    )
    assert diagnosed(asked(lambda _: f"{head}\n{RULES}")).findings == []


def test_two_things_that_break_one_prefix_are_told_together() -> None:
    requests = asked(lambda number: f"Current time: 2026-03-{number + 1:02d}\nRequest: {_uuid(number)}\n{RULES}")
    findings = diagnosed(requests).findings
    assert {found.kind for found in findings} == {Kind.DATE_TIME, Kind.UUID}
    assert len({(found.cached_share_before, found.cached_share_after, found.tokens_lost) for found in findings}) == 1
    assert all("together" in found.suggestion for found in findings)


def test_a_system_prompt_that_changes_each_turn() -> None:
    requests = [
        Logged(
            {"messages": [{"role": "system", "content": f"State: {prose(36, ('state', turn))}"}, *conversation(turn)]}
        )
        for turn in range(MANY)
    ]
    finding = only(requests, Kind.SYSTEM_PROMPT, "messages[0].content")
    assert finding.cached_share_after > 0.5


def test_an_unnamed_text_in_front_is_told_as_other() -> None:
    only(asked(lambda number: f"Motto: {prose(9, ('motto', number))}\n{RULES}"), Kind.OTHER, "messages[0].content")


def test_a_text_of_two_applications_is_no_finding() -> None:
    assert (
        diagnosed(asked(lambda number: f"You work for {('Acme', 'Globex')[number % 2]}.\n{RULES}", 20)).findings == []
    )


def test_a_date_within_a_tools_description() -> None:
    def tools(number: int) -> list[dict[str, object]]:
        text = f"Looks a flight up. Prices are of 2026-03-{number + 1:02d} and may change."
        return [{"type": "function", "function": {"name": "look_up", "description": text}}]

    requests = [chat(RULES, question(number), tools=tools(number)) for number in range(MANY)]
    only(requests, Kind.DATE_TIME, "tools[0].function.description")


def test_a_date_in_front_of_a_shared_document() -> None:
    requests = [
        Logged({"messages": [{"role": "user", "content": f"Date: 2026-03-{n + 1:02d}\n{RULES}\n\n{question(n)}"}]})
        for n in range(MANY)
    ]
    only(requests, Kind.DATE_TIME, "messages[0].content")
