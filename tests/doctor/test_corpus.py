"""The labelled corpus is what it says: seen without the doctor."""

import json
from collections import Counter
from typing import Any

import pytest
from bench.doctor_corpus import FAULTS, SMALL, Corpus, Family, draw
from bench.doctor_corpus.dialects import Dialect
from bench.doctor_corpus.language import LANGUAGES
from bench.doctor_judgement import cached_share

from warmroute.doctor import Kind
from warmroute.openai_api import JsonObject
from warmroute.request_log.blocks import Blocking
from warmroute.request_log.bodies import parsed

_LEAST_LOSS = 0.04
"""Of a faulty family's prompt tokens: so much more could be in the cache."""


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return draw(seed=5)


def share(family: Family, bodies: list[JsonObject]) -> float:
    return cached_share(bodies, [each.path for each in family.requests], Blocking())


def test_every_kind_has_families(corpus: Corpus) -> None:
    assert set(FAULTS) == set(Kind) - {Kind.OTHER}
    assert len(corpus.families) >= 300
    counts = Counter(label.kind for family in corpus.families for label in family.expected)
    assert min(counts[kind] for kind in FAULTS) >= 8
    drawn = Counter(family.scenario for family in corpus.families)
    assert all(
        drawn[scenario.__qualname__.removesuffix(".<locals>.case")] for each in FAULTS.values() for scenario in each
    )


def test_there_is_much_clean_traffic(corpus: Corpus) -> None:
    clean = [family for family in corpus.families if family.name.startswith("clean/")]
    assert len(clean) >= 60
    assert sum(len(family.requests) for family in clean) >= 2_000
    assert all(family.expected == () for family in clean)


def test_languages_and_dialects_are_mixed(corpus: Corpus) -> None:
    assert len({family.language for family in corpus.families}) == len(LANGUAGES)
    paths = {request.path for request in corpus.requests()}
    assert paths == {None, *(dialect.value for dialect in Dialect)}


def test_the_log_is_in_the_order_of_time_and_mixes_families(corpus: Corpus) -> None:
    times = [corpus.families[family].times_s[request] for family, request in corpus.log]
    assert times == sorted(times)
    assert len(corpus.log) == sum(len(family.requests) for family in corpus.families)
    neighbours = zip(corpus.log, corpus.log[1:], strict=False)
    assert sum(left[0] != right[0] for left, right in neighbours) > 0.8 * len(corpus.log)
    of_one = [request for family, request in corpus.log if family == 0]
    assert of_one == list(range(len(of_one)))


def test_equal_seeds_give_equal_corpora() -> None:
    one, same, other = (draw(seed, SMALL) for seed in (1, 1, 2))
    assert (one.families, one.log) == (same.families, same.log)
    assert one.families != other.families


def test_all_bodies_can_be_read(corpus: Corpus) -> None:
    for request in corpus.requests():
        assert len(parsed(request.body, request.path).contents) == 1
        assert json.loads(json.dumps(request.body)) == request.body


def test_labels_are_true(corpus: Corpus) -> None:
    """A faulty family loses reuse that it has without the fault; a clean one is the same with and without."""
    for family in corpus.families:
        sent = [request.body for request in family.requests]
        if not family.expected:
            assert family.healthy == sent, family.name
            continue
        gained = share(family, family.healthy) - share(family, sent)
        assert gained >= _LEAST_LOSS, (family.name, family.scenario, gained)


def test_labels_name_fields_that_are_there(corpus: Corpus) -> None:
    for family in corpus.families:
        for label in family.expected:
            assert any(has_field(family.requests[-1].body, field) for field in label.fields), (family.name, label)


def has_field(body: Any, field: str) -> bool:
    """Whether a body has a value at a path such as `messages[0]`."""
    name, _, position = field.partition("[")
    return name in body and (not position or int(position.rstrip("]")) < len(body[name]))
