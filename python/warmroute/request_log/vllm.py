"""vLLM's request log, which `--enable-log-requests` writes (before 0.10 all but `--disable-log-requests`).

    INFO 10-01 18:43:27 logger.py:36] Received request cmpl-c5-0: prompt: 'How to', params: SamplingParams(n=1, ...,
      max_tokens=16, ...), prompt_token_ids: [1, 1128], lora_request: None, prompt_adapter_request: None.
    INFO 07-21 09:12:44 [logger.py:41] Received request chatcmpl-1f: prompt: '<|im_start|>...', params:
      SamplingParams(...), prompt_token_ids: None, prompt_embeds shape: None, lora_request: None.
    (APIServer pid=9) DEBUG 02-13 11:33:33 [logger.py:39] Request chatcmpl-a2 details: prompt: '...',
      prompt_token_ids: [...], prompt_embeds shape: None.
    (APIServer pid=9) INFO 02-13 11:33:33 [logger.py:49] Received request chatcmpl-a2: params: SamplingParams(...),
      lora_request: None.
    INFO 02-13 11:33:39 [logger.py:63] Generated response chatcmpl-a2: output: '...', output_token_ids: [...],
      finish_reason: stop

Releases 0.6 to 0.8, 0.8 to 0.11, since 0.11.1 (details only at VLLM_LOGGING_LEVEL=DEBUG), and, of all, the answers
that `--enable-log-outputs` adds. Source: `RequestLogger` of these releases. Their times lack the year; a time that
Docker, Kubernetes or systemd has put in front, or around it as JSON, counts instead where there is one.
"""

import ast
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from warmroute.openai_api import Content, TextContent, TokenContent
from warmroute.openai_api.body import UnreadableBody, token_ids
from warmroute.request_log.fields import first, json_object, time_in
from warmroute.request_log.request import BrokenLine, LoggedRequest, ToldPrompt
from warmroute.request_log.times import seconds

NAME = "vllm"
_RECEIVED = re.compile(r"Received request (\S+?): ")
_DETAILS = re.compile(r"Request (\S+?) details: ")
_ANSWERED = re.compile(r"Generated response (\S+?)(?: \((streaming delta|streaming complete)\))?: ")
_MARKS = (b"Received request ", b" details: prompt", b"Generated response ")
_STAMP = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_IN_FRONT = re.compile(r"(?:\S+ )??(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)")
_PROMPT = re.compile(r"""prompt: ('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|None),""", re.DOTALL)
_IDS = re.compile(r"prompt_token_ids: (\[[\d, ]*\]|None)")
_OUTPUT_IDS = re.compile(r"output_token_ids: (\[[\d, ]*\]|None)(?:, finish_reason|$)")
_MAX_TOKENS = re.compile(r"\bmax_tokens=(\d{1,9})\b")
_LORA = re.compile(r"lora_request: LoRARequest\(lora_name='([^']{1,256})'")
_TEXTS = ("log", "message", "msg", "event")
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_HALF_A_YEAR_S = 180 * 86_400.0
# Requests whose answers are waited for, and prompts told before their requests: as many as one process has in work.
_KEPT = 1_024
_NO_PROMPT = (
    "it has no prompt: since 0.11.1 vLLM logs prompts at VLLM_LOGGING_LEVEL=DEBUG only, with --enable-log-requests"
)


@dataclass(slots=True)
class _Open:
    """A request whose answer has not been seen yet."""

    request: LoggedRequest
    tokens: int = 0
    is_answered: bool = False


class VllmReader:
    """Reads one line after the other. Requests are kept back until their answers come, but not more than a thousand."""

    def __init__(self) -> None:
        self._clock = _YearlessClock()
        self._details: OrderedDict[str, Content] = OrderedDict()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The requests that are complete now; none for lines about other things. Raises BrokenLine."""
        if not any(mark in line for mark in _MARKS):
            return ()
        text, self._clock.told = _unwrapped(line)
        answered = _ANSWERED.search(text)
        received = _RECEIVED.search(text)
        # A prompt may hold the words of a log: what comes first is the line's own.
        if answered is not None and (received is None or answered.start() < received.start()):
            return self._answered(text, answered)
        details = _DETAILS.search(text)
        if details is not None and (received is None or details.start() < received.start()):
            self._told(details[1], _content(text[details.end() :]))
            return ()
        return () if received is None else self._received(text, received)

    def rest(self) -> Sequence[LoggedRequest]:
        """The requests that were kept back."""
        requests = [each.request for each in self._open.values()]
        self._open.clear()
        return requests

    def _told(self, request_id: str, content: Content | None) -> None:
        if content is not None:
            self._details[request_id] = content
            if len(self._details) > _KEPT:
                self._details.popitem(last=False)

    def _received(self, text: str, found: "re.Match[str]") -> Sequence[LoggedRequest]:
        request_id, rest = found[1], text[found.end() :]
        content = self._details.pop(request_id, None) or _content(rest)
        if content is None:
            raise BrokenLine(_NO_PROMPT)
        after = _after_prompt(rest)
        limit, adapter = _MAX_TOKENS.search(after), _LORA.search(after)
        prompt = ToldPrompt(content, model=None if adapter is None else adapter[1])
        at_s = self._clock.seconds(text[: found.start()])
        self._open[request_id] = _Open(LoggedRequest(at_s, prompt, max_tokens=None if limit is None else int(limit[1])))
        return self._complete()

    def _answered(self, text: str, found: "re.Match[str]") -> Sequence[LoggedRequest]:
        entry = self._open.get(found[1]) or self._open.get(f"{found[1]}-0")
        if entry is None:
            return ()
        ids = list(_OUTPUT_IDS.finditer(text))
        told = 0 if not ids or ids[-1][1] in ("None", "[]") else ids[-1][1].count(",") + 1
        entry.tokens = entry.tokens + told if found[2] == "streaming delta" else told or entry.tokens
        if found[2] != "streaming delta":
            ended_at_s = max(entry.request.at_s, self._clock.seconds(text[: found.start()]))
            counted = entry.tokens or None
            entry.request = replace(entry.request, answer_tokens=counted, ended_at_s=ended_at_s)
            entry.is_answered = True
        return self._complete()

    def _complete(self) -> list[LoggedRequest]:
        """What need not be kept back longer, in the order of arrival."""
        complete: list[LoggedRequest] = []
        while self._open:
            request_id, entry = next(iter(self._open.items()))
            if not entry.is_answered and len(self._open) <= _KEPT:
                break
            complete.append(entry.request)
            del self._open[request_id]
        return complete


def fits(line: bytes) -> bool:
    """Whether a line is one of vLLM's about a request."""
    return (b"Received request " in line and b"params: " in line) or b" details: prompt" in line


class _YearlessClock:
    """Seconds by the time at the head of a line, where that names no year: it goes on over the turn of a year."""

    def __init__(self) -> None:
        self.told: float | None = None
        """The time of the line, where what the line came in tells it."""
        self._last = 0.0
        self._years_s = 0.0
        self._is_leap_year = False

    def seconds(self, head: str) -> float:
        """Raises BrokenLine where there is no time."""
        if self.told is not None:
            return self.told
        in_front = _IN_FRONT.match(head)
        if in_front is not None:
            return seconds(in_front[1])
        stamp = _STAMP.search(head)
        if stamp is None:
            raise BrokenLine("there is no time in front of it")
        month, day, hour, minute, second = map(int, stamp.groups())
        if not 1 <= month <= 12:
            raise BrokenLine("the time in front of it is none")
        self._is_leap_year |= (month, day) == (2, 29)
        days = _DAYS_BEFORE[month - 1] + day - 1 + (self._is_leap_year and month > 2)
        at_s = days * 86_400.0 + hour * 3_600 + minute * 60 + second + self._years_s
        if at_s < self._last - _HALF_A_YEAR_S:
            self._years_s += (366 if self._is_leap_year else 365) * 86_400.0
            at_s += (366 if self._is_leap_year else 365) * 86_400.0
            self._is_leap_year = False
        self._last = at_s
        return at_s


def _unwrapped(line: bytes) -> tuple[str, float | None]:
    """The line as vLLM wrote it, and its time, where Docker or a JSON formatter has wrapped it into an object."""
    if line.lstrip().startswith(b"{"):
        fields = json_object(line)
        text = first(fields, _TEXTS)
        if isinstance(text, str):
            return text, time_in(fields, "time", "timestamp", "asctime", "ts", "@timestamp")
    return line.decode("utf-8", "replace"), None


def _after_prompt(text: str) -> str:
    prompt = _PROMPT.match(text)
    return text if prompt is None else text[prompt.end() :]


def _content(text: str) -> Content | None:
    """The prompt in a line, its ids where they are told; None where there is neither. Raises BrokenLine."""
    ids = _IDS.search(_after_prompt(text))
    if ids is not None and ids[1] not in ("None", "[]"):
        try:
            return TokenContent(token_ids(msgspec.json.decode(ids[1]), "prompt_token_ids"))
        except (msgspec.DecodeError, UnreadableBody) as error:
            raise BrokenLine("its prompt_token_ids are none") from error
    prompt = _PROMPT.match(text)
    if prompt is None or prompt[1] == "None":
        return None
    try:
        return TextContent(ast.literal_eval(prompt[1]), add_special_tokens=False)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise BrokenLine("its prompt cannot be read") from error
