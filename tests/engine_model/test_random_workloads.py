"""Random workloads: nothing is lost, the cache agrees with a readable definition of a prefix hit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_model.worlds import Run, options
from warmroute.block import Namespace
from warmroute.engine_model import EngineModel, Request
from warmroute.engine_model.block_hasher import BlockHasher

_SEED = 5

# Few token values and few first tokens, so that prompts share prefixes; 20 blocks of 4, so that they do not all fit.
_REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 2),  # which family of prefixes
        st.integers(1, 40),  # prompt tokens
        st.integers(1, 12),  # answer tokens
        st.integers(0, 6),  # steps before it arrives
        st.sampled_from([None, None, "tenant"]),
        st.integers(0, 12),  # aborted after that many steps, if it still runs
    ),
    max_size=14,
)


def _expected_hit(run: Run, request: Request) -> int:
    """Tokens of the longest run of leading full blocks in the listener's belief, the last token never among them."""
    hasher = BlockHasher(4, _SEED)
    hashes = hasher.hashes(request.prompt_token_ids, request.namespace)
    blocks = 0
    for block_hash in hashes[: (len(request.prompt_token_ids) - 1) // 4]:
        if not run.listener.believed().get(block_hash):
            break
        blocks += 1
    return blocks * 4


@settings(deadline=None)
@given(_REQUESTS, st.booleans())
def test_every_request_gets_its_whole_answer(
    plan: list[tuple[int, int, int, int, str | None, int]], tight: bool
) -> None:
    engine = EngineModel(options(num_blocks=20 if tight else 60, max_num_batched_tokens=16, max_num_seqs=4), _SEED)
    run = Run(engine)
    answers: dict[str, int] = {}
    aborted: set[str] = set()
    for number, (family, prompt, answer, delay, salt, patience) in enumerate(plan):
        for _ in range(delay):
            run.step()
        name = str(number)
        ids = [family * 100 + position // 3 for position in range(prompt)]
        engine.submit(Request(name, ids, [family] * answer, Namespace(salt=salt)), run.now)
        answers[name] = answer
        victim = str(number - patience)
        if patience > 8 and engine.abort(victim):
            aborted.add(victim)
        engine.check_integrity()
    run.all()
    for name, answer in answers.items():
        assert name in aborted or run.tokens_of(name) == answer
    assert sorted(run.finished()) == sorted(set(answers) - aborted)
    state = engine.state()
    assert (state.running, state.waiting, state.kv_usage) == (0, 0, 0.0)
    assert state.generation_tokens == sum(output.new_tokens for output in run.outputs)


@settings(deadline=None)
@given(_REQUESTS)
def test_a_hit_is_what_the_events_say(plan: list[tuple[int, int, int, int, str | None, int]]) -> None:
    """One request at a time, so that no eviction of the same step blurs the picture."""
    engine = EngineModel(options(num_blocks=20, max_num_batched_tokens=64), _SEED)
    run = Run(engine)
    for number, (family, prompt, answer, _, salt, _) in enumerate(plan):
        ids = [family * 100 + position // 3 for position in range(prompt)]
        request = Request(str(number), ids, [family] * answer, Namespace(salt=salt))
        expected = _expected_hit(run, request)
        engine.submit(request, run.now)
        run.all()
        assert run.cached[request.request_id] == expected
