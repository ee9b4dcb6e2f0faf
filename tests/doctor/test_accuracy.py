"""How right the doctor is about a labelled corpus that it has not seen, and what its fixes are worth."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.doctor_corpus import FAULTS, SMALL, draw
from bench.doctor_judgement import Judgement, fixes, judged
from tools import doctor_tables

from warmroute.doctor import DoctorOptions, Report, diagnose

_ROOT = Path(__file__).resolve().parents[2]
_UNSEEN_SEED = 77


@pytest.fixture(scope="module")
def unseen() -> tuple[Judgement, Report]:
    corpus = draw(_UNSEEN_SEED, SMALL)
    report = diagnose(corpus.requests(), DoctorOptions(show_text=True))
    return judged(corpus, report), report


def test_the_doctor_is_right(unseen: tuple[Judgement, Report]) -> None:
    judgement, _ = unseen
    counts = judgement.counts()
    told = [
        (None if at is None else judgement.corpus.families[at].name, each.kind, each.field)
        for at, each in judgement.wrong
    ]
    missed = [(family.name, label) for family, label in judgement.missed()]
    assert counts["found"] >= 0.95 * counts["labels"], missed
    assert counts["found"] >= 0.95 * (counts["found"] + counts["wrong"]), told


def test_nothing_is_found_on_clean_families(unseen: tuple[Judgement, Report]) -> None:
    judgement, _ = unseen
    assert [(family.name, found.kind, found.field) for family, found in judgement.on_clean()] == []


def test_fixes_keep_their_word(unseen: tuple[Judgement, Report]) -> None:
    judgement, report = unseen
    done = fixes(judgement, report)
    assert done
    assert [(each.finding.kind, each.promised, each.reached) for each in done if not each.is_kept] == []


@pytest.mark.timeout(120)
def test_the_bench_measures_what_the_tables_show() -> None:
    command = [sys.executable, "bench/doctor.py", "--json", "--quick", "--seeds", "8", "--scale", "150"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["scale"]["requests"] == 150
    assert 5_000 < result["scale"]["mean_tokens"] < 9_000
    assert result["scale"]["peak_rss_bytes"] > result["scale"]["idle_rss_bytes"] > 0
    assert result["kinds"].keys() == {kind.value for kind in FAULTS}
    for render in (doctor_tables.kinds, doctor_tables.fixes, doctor_tables.scale):
        assert render(result).count("\n") > 2
