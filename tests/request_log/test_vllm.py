"""vLLM's request log, as its releases write it."""

import itertools
import json

import pytest

from request_log.reads import content_of, read_lines_of
from warmroute.openai_api import TextContent, TokenContent
from warmroute.request_log.request import BrokenLine
from warmroute.request_log.vllm import VllmReader, fits

PARAMS = (
    "SamplingParams(n=1, presence_penalty=0.0, temperature=0.7, stop=['max_tokens=9'], stop_token_ids=[], "
    "ignore_eos=False, max_tokens=100, min_tokens=0, logprobs=None, extra_args=None)"
)
OTHERS = (
    'INFO:     10.80.23.18:51408 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "INFO 10-01 18:43:28 metrics.py:351] Avg prompt throughput: 0.8 tokens/s, Running: 0 reqs",
)


def lines_0_6(text: str, ids: str) -> str:
    return (
        f"INFO 10-01 18:43:27 logger.py:36] Received request cmpl-c5-0: prompt: {text!r}, params: {PARAMS}, "
        f"prompt_token_ids: {ids}, lora_request: None, prompt_adapter_request: None."
    )


def lines_0_10(text: str, ids: str = "None", second: int = 44, name: str = "chatcmpl-1f") -> str:
    return (
        f"INFO 07-21 09:12:{second:02} [logger.py:41] Received request {name}: prompt: {text!r}, params: {PARAMS}, "
        f"prompt_token_ids: {ids}, prompt_embeds shape: None, lora_request: None."
    )


def lines_0_16(text: str, ids: str = "None", name: str = "chatcmpl-a2") -> tuple[str, str]:
    head = "(APIServer pid=90458)"
    return (
        f"{head} DEBUG 02-13 11:33:33 [logger.py:39] Request {name} details: prompt: {text!r}, "
        f"prompt_token_ids: {ids}, prompt_embeds shape: None.",
        f"{head} INFO 02-13 11:33:33 [logger.py:49] Received request {name}: params: {PARAMS}, lora_request: None.",
    )


TEXTS = [
    "hello",
    'it\'s "quoted"',
    "a\nb\\n\ttab",
    "prompt_token_ids: [9], params: X(max_tokens=1)",
    "日本 \x00 \udc80",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_every_release(text: str) -> None:
    for lines in ([lines_0_6(text, "None")], [lines_0_10(text)], lines_0_16(text)):
        data = [line.encode("utf-8", "surrogatepass") for line in lines]
        (request,) = read_lines_of(VllmReader(), *data)
        content = content_of(request)
        assert isinstance(content, TextContent)
        assert content.text == text
        assert request.max_tokens in (100, 9)


def test_token_ids_where_they_are_logged() -> None:
    for lines in ([lines_0_6("x", "[1, 15043]")], [lines_0_10("x", "[1, 15043]")], lines_0_16("x", "[1, 15043]")):
        (request,) = read_lines_of(VllmReader(), *OTHERS, *lines)
        content = content_of(request)
        assert isinstance(content, TokenContent)
        assert list(content.token_ids) == [1, 15043]


def test_answers_give_lengths_and_ends_in_any_order_of_requests() -> None:
    first, second = lines_0_10("a", name="chatcmpl-a"), lines_0_10("b", second=45, name="chatcmpl-b")
    answers = [
        "INFO 07-21 09:12:50 [logger.py:63] Generated response chatcmpl-b: output: 'x', output_token_ids: [4, 5, 6], "
        "finish_reason: stop",
        "INFO 07-21 09:12:52 [logger.py:63] Generated response chatcmpl-a (streaming delta): output: 'x', "
        "output_token_ids: [4], finish_reason: None",
        "INFO 07-21 09:12:53 [logger.py:63] Generated response chatcmpl-a (streaming delta): output: 'y', "
        "output_token_ids: [5], finish_reason: stop",
        "INFO 07-21 09:12:54 [logger.py:63] Generated response chatcmpl-a (streaming complete): output: 'xy', "
        "output_token_ids: None, finish_reason: streaming_complete",
    ]
    requests = read_lines_of(VllmReader(), first, second, *answers)
    assert [(each.answer_tokens, (each.ended_at_s or 0) - each.at_s) for each in requests] == [(2, 10.0), (3, 5.0)]


def test_a_completion_s_answer_lacks_the_number_at_the_end_of_its_request() -> None:
    answer = (
        "INFO 10-01 18:43:30 logger.py:63] Generated response cmpl-c5: output: 'x', output_token_ids: [4, 5], "
        "finish_reason: stop"
    )
    (request,) = read_lines_of(VllmReader(), lines_0_6("a", "None"), answer)
    assert request.answer_tokens == 2


def test_requests_without_answers_are_not_kept_back_for_ever() -> None:
    reader = VllmReader()
    given = 0
    for number in range(3_000):
        given += len(reader.read(lines_0_10("a", name=f"chatcmpl-{number}").encode()))
    assert given > 1_900
    assert given + len(reader.rest()) == 3_000


def test_a_prompt_that_is_not_logged_is_told_what_to_do() -> None:
    with pytest.raises(BrokenLine, match="VLLM_LOGGING_LEVEL=DEBUG"):
        read_lines_of(VllmReader(), lines_0_16("x")[1])


def test_times_that_lack_the_year_go_on_over_its_turn() -> None:
    reader = VllmReader()
    lines = [
        lines_0_10("a", name=f"chatcmpl-{at[:5]}").replace("07-21 09:12:44", at)
        for at in ("12-31 23:59:59", "01-01 00:00:01", "02-28 00:00:01", "03-01 00:00:01")
    ]
    times = [request.at_s for request in read_lines_of(reader, *lines)]
    day = 86_400
    assert [later - sooner for sooner, later in itertools.pairwise(times)] == [2, 58 * day, day]


def test_a_leap_day_is_a_day() -> None:
    lines = [
        lines_0_10("a", name=f"chatcmpl-{at[:5]}").replace("07-21 09:12:44", at)
        for at in ("02-28 00:00:00", "02-29 00:00:00", "03-01 00:00:00")
    ]
    times = [request.at_s for request in read_lines_of(VllmReader(), *lines)]
    assert [times[1] - times[0], times[2] - times[1]] == [86_400, 86_400]


def test_a_time_in_front_or_around_counts_instead() -> None:
    line = lines_0_10("it's")
    wrapped = [
        f"2026-02-13T11:33:33.250000000Z {line}",
        f"pod/vllm-0 2026-02-13T11:33:33.250Z {line}",
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-02-13T11:33:33.250Z"}),
        json.dumps({"message": line.partition("] ")[2], "timestamp": 1_770_982_413_250}),
    ]
    for each in wrapped:
        (request,) = read_lines_of(VllmReader(), each)
        assert request.at_s == 1_770_982_413.25
        assert content_of(request) == TextContent("it's", add_special_tokens=False)


def test_adapters_keep_prompts_apart() -> None:
    line = lines_0_10("a").replace("lora_request: None", "lora_request: LoRARequest(lora_name='sql', lora_int_id=1)")
    (request,) = read_lines_of(VllmReader(), line)
    assert getattr(request.prompt, "model", None) == "sql"


def test_what_fits() -> None:
    assert all(fits(line.encode()) for line in (lines_0_6("a", "None"), lines_0_10("a"), *lines_0_16("a")))
    assert not any(fits(line.encode()) for line in OTHERS)
