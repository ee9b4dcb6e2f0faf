"""Conversations that lose their beginning, and such that only grow."""

from typing import Any

from doctor.requests_to_diagnose import MANY, RULES, conversation, diagnosed, only, prose
from warmroute.doctor import Kind, Logged

_SYSTEM = {"role": "system", "content": RULES}


def _turn(messages: list[dict[str, Any]], **fields: Any) -> Logged:
    return Logged({"model": "m", "messages": messages, **fields})


def test_a_history_that_is_cut_from_the_front() -> None:
    requests = [_turn([_SYSTEM, *conversation(turn)[-5:]]) for turn in range(MANY)]
    finding = only(requests, Kind.HISTORY_TRUNCATED, "messages[1]")
    assert finding.fix.apply(requests[6].body)["messages"] == [_SYSTEM, *conversation(6)]


def test_a_history_that_is_summarised_each_turn() -> None:
    def summarised(turn: int) -> list[dict[str, Any]]:
        messages = conversation(turn)
        if len(messages) <= 5:
            return messages
        return [{"role": "user", "content": f"Summary so far: {prose(36, ('sum', turn))}"}, *messages[-5:]]

    requests = [_turn([_SYSTEM, *summarised(turn)]) for turn in range(MANY)]
    finding = only(requests, Kind.HISTORY_SUMMARISED, "messages[1]")
    assert finding.fix.apply(requests[7].body)["messages"] == [_SYSTEM, *conversation(7)]


def test_a_history_that_is_summarised_in_the_system_prompt() -> None:
    def body(turn: int) -> dict[str, Any]:
        messages = conversation(turn)
        summary = f"\n\nSummary so far: {prose(36, ('sum', turn))}" if len(messages) > 5 else ""
        return {"max_tokens": 9, "system": RULES + summary, "messages": messages[-5:]}

    requests = [Logged(body(turn), "/v1/messages") for turn in range(MANY)]
    assert [found.kind for found in diagnosed(requests).findings] == [Kind.HISTORY_SUMMARISED]


def test_reasoning_that_is_sent_once() -> None:
    def with_thought(turn: int) -> list[dict[str, Any]]:
        messages = conversation(turn)
        for message in messages[-2:-1]:
            message["reasoning_content"] = prose(45, ("thought", turn))
        return messages

    requests = [_turn([_SYSTEM, *with_thought(turn)]) for turn in range(MANY)]
    finding = only(requests, Kind.REASONING_DROPPED, "messages[2]")
    thoughts = [each.get("reasoning_content") for each in finding.fix.apply(requests[5].body)["messages"]]
    assert sum(thought is not None for thought in thoughts) == 5


def test_a_conversation_that_grows_is_no_finding() -> None:
    calls: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    }
    result: dict[str, Any] = {"role": "tool", "tool_call_id": "c", "content": prose(45, "result")}
    grown = [[_SYSTEM, *conversation(turn), *[calls, result] * (turn % 2)] for turn in range(MANY)]
    assert diagnosed([_turn(messages) for messages in grown]).findings == []


def test_a_history_that_is_cut_once_is_no_finding() -> None:
    cut = [conversation(turn) if turn < 6 else conversation(turn)[6:] for turn in range(MANY)]
    assert diagnosed([_turn([_SYSTEM, *messages]) for messages in cut]).findings == []


def test_a_prompt_in_one_text_has_turns_as_well() -> None:
    def prompt(turn: int) -> str:
        written = "".join(
            f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in conversation(turn)[-5:]
        )
        return f"<|im_start|>system\n{RULES}<|im_end|>\n{written}<|im_start|>assistant\n"

    requests = [Logged({"model": "m", "prompt": prompt(turn)}) for turn in range(MANY)]
    only(requests, Kind.HISTORY_TRUNCATED, "prompt")
