"""Random workloads on engines with every tier: nothing is computed twice, held twice, or told wrongly."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_model.worlds import Listener, options
from warmroute.block import Tier
from warmroute.engine_model import EngineModel, Request, Step

_TIERS = (Tier.DEVICE, Tier.HOST, Tier.DISK)

_REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 0]),  # which family of prefixes
        st.sampled_from([30, 40, 36, 5, 1, 17]),  # prompt tokens: a few of them are more than the GPU holds
        st.integers(1, 12),  # answer tokens
        st.sampled_from([9, 2, 30, 0]),  # seconds before it arrives
        st.sampled_from([0, 0, 0, 0, 3, 15]),  # seconds after which it is aborted, if at all
    ),
    min_size=5,
    max_size=16,
)
_SIZES = st.sampled_from([8, 3, 40, 0])
_RATES = st.sampled_from([4.0, 64.0, 1.5])


class Accounts:
    """What each request has computed, loaded and found, from one step to the next."""

    def __init__(self, engine: EngineModel) -> None:
        self.engine = engine
        self.position: dict[str, int] = {}
        self.computed = 0
        self.listeners = {tier: Listener({}, tier) for tier in _TIERS}

    def begin(self, step: Step) -> None:
        """Every chunk goes on where the request stood; a request that stands nowhere begins behind its cached part."""
        self.check_sizes()
        for name in step.preempted:
            self.position.pop(name, None)
        admitted = dict(step.admitted)
        chunks = {chunk.request_id: chunk for chunk in step.batch.chunks}
        assert [live.request_id for live in step.batch.scheduled if live.request_id in chunks] == list(chunks)
        for name, tiers in step.loaded.items():
            assert 0 < sum(tiers.values()) <= admitted[name]
        for live in step.batch.scheduled:
            name = live.request_id
            chunk = chunks.get(name)
            start, tokens = (live.computed - 1, 1) if chunk is None else (chunk.start, chunk.tokens)
            assert self.position.get(name, start) == start, "a token was skipped, or is computed twice"
            assert tokens > 0
            if name in admitted:
                assert start == admitted[name] == live.cached_tokens
            assert start % self.engine.options.block_size == 0 or name in self.position, "a hit ends within a block"
            self.position[name] = start + tokens
            self.computed += tokens
        assert sum(chunk.tokens for chunk in chunks.values()) <= self.engine.options.max_num_batched_tokens

    def end(self, step: Step) -> None:
        result = self.engine.complete(step)
        self.engine.check_integrity()
        self.check_sizes()
        for tier, listener in self.listeners.items():
            listener.hear(result.changes)
            assert listener.believed() == self.engine.cached_hashes(tier)
        for output in result.outputs:
            if output.finished:
                del self.position[output.request_id]

    def check_sizes(self) -> None:
        given = self.engine.options
        held = [sum(self.engine.cached_hashes(tier).values()) for tier in _TIERS]
        assert held[0] <= given.num_blocks
        assert held[1] <= given.host_blocks
        assert held[2] <= given.disk_blocks
        assert 0.0 <= self.engine.state().kv_usage <= 1.0


@settings(deadline=None, max_examples=200)
@given(_REQUESTS, st.sampled_from([13, 20]), _SIZES, _SIZES, _RATES, _RATES)
def test_every_token_is_computed_once_or_comes_from_a_cache(
    plan: list[tuple[int, int, int, int, int]], blocks: int, host: int, disk: int, host_rate: float, disk_rate: float
) -> None:
    world = options(
        num_blocks=blocks,
        max_num_batched_tokens=16,
        max_num_seqs=4,
        prefill_tokens_per_s=2.0,
        host_blocks=host,
        disk_blocks=disk,
        host_load_tokens_per_s=host_rate,
        disk_load_tokens_per_s=disk_rate,
    )
    engine = EngineModel(world, 5)
    accounts, now = Accounts(engine), 0.0
    events = _events(plan)
    while events or engine.wake_at(now) is not None:
        wake_at = engine.wake_at(now)
        if events and (wake_at is None or events[0][0] <= wake_at):
            at, happening = events.pop(0)
            now = max(now, at)
            if isinstance(happening, Request):
                engine.submit(happening, now)
            elif engine.abort(happening, now):
                accounts.position.pop(happening, None)
            engine.check_integrity()
            continue
        assert wake_at is not None
        now = wake_at
        step = engine.step(now)
        engine.check_integrity()
        if step is None:
            later = engine.wake_at(now)
            assert later is not None
            assert later > now
            continue
        accounts.begin(step)
        now = step.ends_at
        accounts.end(step)
    assert not accounts.position
    _check_counts(engine, accounts)


def _events(plan: list[tuple[int, int, int, int, int]]) -> list[tuple[float, Request | str]]:
    """Arrivals and aborts in the order of their times."""
    events: list[tuple[float, Request | str]] = []
    at = 0.0
    for number, (family, prompt, answer, delay, patience) in enumerate(plan):
        at += delay
        ids = [family * 100 + position // 3 for position in range(prompt + answer)]
        events.append((at, Request(str(number), ids[:prompt], ids[prompt:])))
        if patience:
            events.append((at + patience, str(number)))
    return sorted(events, key=lambda event: event[0])


def _check_counts(engine: EngineModel, accounts: Accounts) -> None:
    state = engine.state()
    hits = state.prefix_hits + state.host_hits + state.disk_hits
    assert min(state.prefix_hits, state.host_hits, state.disk_hits) >= 0
    assert hits <= state.prefix_queries
    if not state.preemptions and state.prompt_tokens == state.prefix_queries:  # nobody was aborted before its prompt
        first_tokens = state.prompt_tokens - hits
        assert first_tokens <= accounts.computed <= first_tokens + state.generation_tokens
    assert (state.running, state.waiting, state.kv_usage) == (0, 0, 0.0)
