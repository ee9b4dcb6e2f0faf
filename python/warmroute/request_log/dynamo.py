"""NVIDIA Dynamo's request traces: `dynamo.request.trace.v1`, one event a line, with hashes of the prompt's blocks.

{"timestamp": 49492, "event": {"schema": "dynamo.request.trace.v1", "event_type": "request_end",
 "agent_context": {"session_id": ...}, "request": {"request_received_ms": 1779163048815, "total_time_ms": 1381.9,
 "output_tokens": 3, "replay": {"trace_block_size": 16, "input_length": 15, "input_sequence_hashes": [...]}, ...}}}
"""

from collections.abc import Sequence

from warmroute.openai_api.body import count
from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.fields import inner, json_object, lasting, name_in, time_in
from warmroute.request_log.mooncake import LONGEST, checked
from warmroute.request_log.request import BlockIds, BrokenLine, LoggedRequest

_SCHEMA = "dynamo.request.trace."


class DynamoReader:
    """Reads one event after the other; requests are told when they end."""

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The request that an event ends; of other events nothing. Raises BrokenLine."""
        event = _event(json_object(line))
        if event.get("event_type") != "request_end":
            return ()
        request = inner(event, "request")
        at_s = time_in(request, "request_received_ms")
        if at_s is None:
            raise BrokenLine("it has no request_received_ms")
        prompt, lasted_s = _prompt(inner(request, "replay")), lasting(request, (), ("total_time_ms",))
        return [
            LoggedRequest(
                at_s=at_s,
                prompt=prompt,
                prompt_tokens=prompt.tokens,
                answer_tokens=count(request, "output_tokens"),
                session=name_in(inner(event, "agent_context"), "session_id"),
                ended_at_s=None if lasted_s is None else at_s + lasted_s,
            )
        ]

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def fits(fields: JsonObject) -> bool:
    """Whether a line's object is such an event."""
    return str(_event(fields).get("schema", "")).startswith(_SCHEMA)


def _event(fields: JsonObject) -> JsonObject:
    return inner(fields, "event") or fields


def _prompt(replay: JsonObject) -> BlockIds:
    ids, size, tokens = (
        replay.get("input_sequence_hashes"),
        count(replay, "trace_block_size"),
        replay.get("input_length"),
    )
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids):
        raise BrokenLine("its `replay` has no input_sequence_hashes; Dynamo writes them where traces are for replay")
    if not size or size > LONGEST or not isinstance(tokens, int):
        raise BrokenLine("its `replay` has no trace_block_size or no input_length")
    return checked(BlockIds(ids, size, tokens))
