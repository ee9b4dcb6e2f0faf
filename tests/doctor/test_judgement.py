"""Findings are judged as the labels say, and reuse is counted as a plain set of prefixes counts it."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from bench.doctor_corpus import SMALL, Corpus, draw
from bench.doctor_judgement import cached_share, fixes, judged
from hypothesis import given
from hypothesis import strategies as st

from warmroute.doctor import Finding, Kind, Report
from warmroute.openai_api import JsonObject
from warmroute.request_log.blocks import Blocking

_BLOCK_BYTES = 64


class Unchanged:
    """A fix that fixes nothing."""

    def apply(self, body: JsonObject) -> JsonObject:
        return body


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return draw(3, SMALL)


def finding(kind: Kind, field: str, requests: tuple[int, int], family_requests: int) -> Finding:
    return Finding(
        kind=kind,
        family="f",
        field=field,
        char_offset=0,
        token_offset=0,
        block=0,
        left="a",
        right="b",
        left_request=requests[0],
        right_request=requests[1],
        requests=2,
        family_requests=family_requests,
        tokens_lost=100,
        prefill_s_lost=0.1,
        share_lost=0.1,
        cached_share_before=0.0,
        cached_share_after=0.9,
        suggestion="move it",
        fix=Unchanged(),
    )


def report(*findings: Finding) -> Report:
    return Report(
        requests=10,
        families=2,
        prompt_tokens=1_000,
        cached_share=0.1,
        possible_share=0.9,
        block_tokens=16,
        bytes_per_token=4.0,
        dropped={},
        findings=list(findings),
    )


def positions(corpus: Corpus, family: int) -> tuple[int, int]:
    """Where the first two requests of a family are in the log."""
    return corpus.log.index((family, 0)), corpus.log.index((family, 1))


def test_the_labels_themselves_are_all_right(corpus: Corpus) -> None:
    told = [
        finding(label.kind, f"{label.fields[0]}.content", positions(corpus, at), len(family.requests))
        for at, family in enumerate(corpus.families)
        for label in family.expected
    ]
    judgement = judged(corpus, report(*told, *told))
    assert judgement.counts() == {"labels": len(told), "found": len(told), "wrong": 0}
    assert not list(judgement.missed())
    assert not judgement.on_clean()


def test_what_is_wrong_counts_as_wrong(corpus: Corpus) -> None:
    faulty = next(at for at, family in enumerate(corpus.families) if family.expected)
    clean = next(at for at, family in enumerate(corpus.families) if not family.expected)
    (label,), size = corpus.families[faulty].expected, len(corpus.families[faulty].requests)
    here, field = positions(corpus, faulty), label.fields[0]
    told = [
        finding(Kind.OTHER, field, here, size),
        finding(label.kind, f"{field}0", here, size),
        finding(label.kind, field, here, size + 1),
        finding(label.kind, field, (here[0], positions(corpus, clean)[0]), size),
        finding(label.kind, field, positions(corpus, clean), 2),
    ]
    judgement = judged(corpus, report(*told))
    assert judgement.counts()["found"] == 0
    assert judgement.counts()["wrong"] == len(told)
    assert judgement.on_clean() == [(corpus.families[clean], told[-1])]


def test_a_label_is_found_where_half_of_its_family_is(corpus: Corpus) -> None:
    at = next(at for at, family in enumerate(corpus.families) if family.expected)
    (label,), size = corpus.families[at].expected, len(corpus.families[at].requests)
    less = finding(label.kind, label.fields[0], positions(corpus, at), (size - 1) // 2)
    rest = replace(less, family="g", family_requests=1)
    assert [judged(corpus, report(*told)).counts()["found"] for told in ([less, less], [less, rest])] == [0, 1]


def test_a_fix_that_changes_nothing_breaks_its_word(corpus: Corpus) -> None:
    faulty = next(at for at, family in enumerate(corpus.families) if family.expected)
    label = corpus.families[faulty].expected[0]
    told = report(finding(label.kind, label.fields[0], positions(corpus, faulty), 2))
    (done,) = fixes(judged(corpus, told), told)
    assert (done.promised, done.is_kept) == (0.9, False)


def naive_share(prompts: Sequence[bytes]) -> float:
    """Every full block with all that is before it, in a set. A token is four bytes, the last one filled up."""
    seen, cached, tokens = set[bytes](), 0, 0
    for prompt in (each + bytes(-len(each) % 4) for each in prompts):
        ends = range(_BLOCK_BYTES, len(prompt) + 1, _BLOCK_BYTES)
        held = next((at for at, end in enumerate(ends) if prompt[:end] not in seen), len(ends))
        cached += 16 * held
        tokens += len(prompt) // 4
        seen.update(prompt[:end] for end in ends)
    return cached / tokens


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 700)), min_size=1, max_size=12))
def test_reuse_is_that_of_a_set_of_prefixes(drawn: list[tuple[int, int]]) -> None:
    texts = [Random(f"text {which}").randbytes(400).hex()[:length] for which, length in drawn]
    shown = cached_share([{"prompt": text} for text in texts], [None] * len(texts), Blocking())
    assert shown == pytest.approx(naive_share([text.encode() for text in texts]))


def test_models_salts_and_adapters_keep_prompts_apart() -> None:
    prompt = {"prompt": "x" * 6_400}
    for field in ("model", "cache_salt", "lora_path"):
        apart = [{**prompt, "model": "m", field: value} for value in ("a", "b")]
        assert cached_share(apart, [None, None], Blocking()) == 0.0
    assert cached_share([{**prompt, "model": "m"}] * 2, [None, None], Blocking()) == pytest.approx(0.5)
