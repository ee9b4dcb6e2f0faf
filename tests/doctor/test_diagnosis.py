"""The diagnosis as a whole: whatever the bodies are, within its memory, the same each time."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.requests_to_diagnose import MANY, RULES, asked, chat, diagnosed, prose, question
from warmroute.doctor import DoctorOptions, Kind, Logged, diagnose, told
from warmroute.tokenizer import LocalTokenizer

_TEXTS = st.text(max_size=40) | st.sampled_from(
    ["2026-03-03", "### User:\nhi\n### Assistant:\n", "https://a.b/c?d=1", "{"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_ROLES = st.sampled_from(["system", "user", "assistant", "tool", "developer", "", None, 3])
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": _ROLES, "content": _JSON}, optional={"reasoning": _JSON, "tool_calls": _JSON})
    | _JSON,
    max_size=5,
)
_BODIES = st.dictionaries(st.text(max_size=8), _JSON, max_size=3) | st.fixed_dictionaries(
    {},
    optional={
        "model": _JSON,
        "messages": _MESSAGES,
        "input": _MESSAGES | _JSON,
        "prompt": _TEXTS | st.lists(_TEXTS, max_size=2) | _JSON,
        "system": _JSON,
        "instructions": _JSON,
        "tools": st.lists(_JSON, max_size=3) | _JSON,
        "documents": st.lists(_JSON, max_size=3) | _JSON,
        "cache_salt": _JSON,
        "chat_template_kwargs": _JSON,
    },
)
_PATHS = st.sampled_from(
    [None, "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"]
)


@given(st.lists(st.tuples(_BODIES, _PATHS), min_size=2, max_size=6), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_body_is_too_strange(bodies: list[tuple[dict[str, object], str | None]], repeated: bool) -> None:
    # Behind one shared prompt strange bodies are compared with each other, not each told apart as a family of its own.
    requests = [
        Logged({**body, **({"system": RULES, "instructions": RULES} if repeated else {})}, path)
        for body, path in bodies
    ]
    report = diagnosed(requests * 2)
    assert report.requests + sum(report.dropped.values()) == 2 * len(bodies)
    for finding in report.findings:
        for logged in requests:
            assert isinstance(finding.fix.apply(logged.body), dict)


def test_a_fix_leaves_the_body_as_it_is() -> None:
    requests = asked(lambda number: f"Date: 2026-03-{number + 1:02d}\n{RULES}")
    finding = diagnosed(requests).findings[0]
    again = asked(lambda number: f"Date: 2026-03-{number + 1:02d}\n{RULES}")
    for logged, same in zip(requests, again, strict=True):
        once = finding.fix.apply(logged.body)
        assert logged.body == same.body
        assert finding.fix.apply(logged.body) == once


def test_equal_logs_have_equal_reports() -> None:
    requests = asked(lambda number: f"Date: 2026-03-{number + 1:02d}\n{RULES}")
    assert told(diagnosed(requests)) == told(diagnosed(requests))


def test_texts_are_shortened_unless_they_are_asked_for() -> None:
    requests = asked(lambda number: f"Motto: {prose(9, ('motto', number))}\n{RULES}")
    assert len(diagnose(requests).findings[0].left) < 24
    assert len(diagnosed(requests).findings[0].left) > 24


def test_applications_are_families_of_their_own() -> None:
    requests = [
        replace(each, application=f"app-{number % 2}") for number, each in enumerate(asked(lambda _: RULES, 2 * MANY))
    ]
    assert diagnosed(requests).families == 2


def test_a_family_is_found_again_whatever_stands_in_front() -> None:
    requests = asked(lambda number: f"{prose(45, ('front', number))}\n{RULES}")
    assert diagnosed(requests).families == 1


def test_many_families_in_little_memory() -> None:
    """What is kept is examined before more is kept; what was found then is told in the end."""
    rules = [prose(1_500, ("rules", family)) for family in range(40)]
    requests = [chat(f"Date: 2026-03-{1 + n // 40:02d}\n{rules[n % 40]}", question(n)) for n in range(40 * MANY)]
    report = diagnose(requests, DoctorOptions(memory_bytes=20 * 2**20))
    assert report.requests == len(requests)
    assert len([found for found in report.findings if found.kind is Kind.DATE_TIME]) > 20


def test_tokens_of_a_tokenizer() -> None:
    tokenizer = LocalTokenizer.load("warmroute-tiny")
    requests = asked(lambda number: f"Date: 2026-03-{number + 1:02d}\n{RULES}")
    report = diagnose(requests, DoctorOptions(tokenizer=tokenizer))
    assert report.bytes_per_token is None
    assert [found.kind for found in report.findings] == [Kind.DATE_TIME]
    assert report.findings[0].cached_share_after > 0.7


def test_a_batch_of_prompts_counts_as_its_prompts() -> None:
    prompts = [f"{RULES}\n\n{question(number)}" for number in range(MANY)]
    batch, alone = diagnosed([Logged({"prompt": prompts})]), diagnosed([Logged({"prompt": each}) for each in prompts])
    assert (batch.prompt_tokens, batch.cached_share) == (alone.prompt_tokens, alone.cached_share)


def test_half_of_a_surrogate_pair_is_a_character_as_well() -> None:
    requests = asked(lambda number: f"Date: 2026-03-{number + 1:02d} \ud83d\n{RULES}")
    assert [found.kind for found in diagnosed(requests).findings] == [Kind.DATE_TIME]
