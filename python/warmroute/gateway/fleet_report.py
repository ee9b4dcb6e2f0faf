"""Each worker of the fleet as people and metrics see it."""

from collections.abc import Iterable, Iterator
from typing import Any

from warmroute.diagnostics.explain import View
from warmroute.diagnostics.state_metrics import EventCounts
from warmroute.gateway.event_streams import EventStream
from warmroute.gateway.fleet import Member
from warmroute.router import Router
from warmroute.worker import Lane


def member_report(member: Member, router: Router, now: float) -> dict[str, Any]:
    """One worker as a JSON object: state, facts, load, rates, KV events."""
    worker = member.worker
    rates = router.calibration.rates(worker.key)
    load = worker.load(now)
    last_look_at = member.prober.last_look_at
    return {
        "url": worker.id,
        "name": worker.name,
        "status": worker.status,
        "reason": worker.status_reason,
        "origin": member.origin,
        "models": sorted(worker.models),
        "block_size": worker.block_size,
        "capacity_blocks": worker.capacity_blocks,
        "blocks": sum(router.index.blocks(lane.key) for lane in worker.lanes),
        "requests": load.requests,
        "decoding": load.decoding,
        "queued_tokens": load.queued_tokens,
        "avoided_for_s": max(0.0, worker.circuit.left_alone_until() - now),
        "circuit": worker.circuit.state(now),
        "kv_usage": None if worker.report is None else worker.report.kv_usage,
        "prefill_tokens_per_s": rates.prefill_tokens_per_s,
        "decode_slope_s": rates.decode_slope_s,
        "looked_at_s_ago": None if last_look_at is None else now - last_look_at,
        "kv_events": [_stream_report(stream, router) for stream in member.streams],
    }


def event_counts(members: Iterable[Member]) -> Iterator[EventCounts]:
    """One line for each worker, its ranks added up; one that publishes no events is neither connected nor complete."""
    for member in members:
        states = [stream.listening.state() for stream in member.streams]
        all_heard = bool(states) and not any(map(EventStream.is_silent, member.streams))
        yield EventCounts(
            worker=member.worker.id,
            connected=bool(states) and all(state.connected for state in states),
            complete=all_heard and all(state.complete for state in states),
            batches=sum(state.batches for state in states),
            gaps=sum(state.gaps for state in states),
            replays=sum(state.replays for state in states),
            restarts=sum(state.restarts for state in states),
            rejected=sum(state.rejected for state in states),
            undecodable=sum(state.undecodable for state in states),
        )


def partial_views(members: Iterable[Member]) -> dict[Lane, View]:
    """The lanes of which it is known that not all KV events were heard."""
    streams = [stream for member in members for stream in member.streams]
    return {stream.lane: View.PARTIAL for stream in streams if not stream.listening.state().complete}


def _stream_report(stream: EventStream, router: Router) -> dict[str, Any]:
    state = stream.listening.state()
    return {
        "rank": stream.lane.rank,
        "endpoint": stream.source.endpoint,
        "blocks": router.index.blocks(stream.lane.key),
        "connected": state.connected,
        "complete": state.complete,
        "silent": stream.is_silent(),
        "last_seq": state.last_seq,
        "batches": state.batches,
        "gaps": state.gaps,
        "replays": state.replays,
        "restarts": state.restarts,
        "resyncs": state.resyncs,
        "rejected": state.rejected,
        "undecodable": state.undecodable,
    }
