"""How often is `warmroute doctor` right, do its fixes keep their word, and how much can it read?

Right: on a labelled corpus that is drawn from seeds (bench/doctor_corpus), of which it sees the requests alone. Keep
their word: each fix is applied to the requests of its family, and the simulator counts what is reused. Read: a log of
100,000 requests of 8,000 tokens goes through a pipe to the command.

One JSON object goes to bench/results/doctor.json; docs/doctor.md is rendered from it. Equal seeds give equal families.

    .venv/bin/python bench/doctor.py --json
    .venv/bin/python bench/doctor.py --quick --seeds 7 --misses
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.doctor_corpus import FAULTS, SMALL, Corpus, Size, draw
from bench.doctor_judgement import KEPT_SHARE, Fixed, Judgement, fixes, judged
from bench.doctor_scale import TOKENS, measured
from bench.environment import environment, spread

from warmroute.doctor import DoctorOptions, Kind, diagnose

RESULT = Path(__file__).parent / "results" / "doctor.json"
_QUICK_REQUESTS = 300
_MIB = 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for and write the result."""
    options = _parser().parse_args(arguments)
    where = environment()
    size = SMALL if options.quick else Size()
    judgements = [_judgement(seed, size, options.misses) for seed in options.seeds]
    count = min(options.scale, _QUICK_REQUESTS) if options.quick else options.scale
    result = {
        "question": "how often is the doctor right, do its fixes keep their word, and how fast does it read?",
        "environment": where,
        "seeds": options.seeds,
        "repeats": len(options.seeds),
        **_summary([each for each, _, _ in judgements], [each for _, each, _ in judgements]),
        "analysis_s": spread([round(seconds, 3) for _, _, seconds in judgements]),
        "scale": _scale(count, options) if count else None,
    }
    if options.out or not options.quick:
        (options.out or RESULT).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result) if options.json else _in_words(result))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="a small corpus and a short log; the result is not kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED", help="one corpus for each")
    parser.add_argument("--misses", action="store_true", help="tell on stderr what was missed, and what was wrong")
    parser.add_argument("--scale", type=int, default=100_000, metavar="N", help="requests of the long log; 0: none")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help="what the command may keep of it")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the result goes")
    return parser


def _judgement(seed: int, size: Size, misses: bool) -> tuple[Judgement, list[Fixed], float]:
    corpus = draw(seed, size)
    begun = time.monotonic()
    report = diagnose(corpus.requests(), DoctorOptions(show_text=True))
    took_s = time.monotonic() - begun
    judgement = judged(corpus, report)
    fixed = fixes(judgement, report)
    print(f"seed {seed}: {len(corpus.log)} requests in {took_s:.1f} s, {judgement.counts()}", file=sys.stderr)
    if misses:
        _tell_misses(judgement, fixed)
    return judgement, fixed, took_s


def _tell_misses(judgement: Judgement, fixed: Sequence[Fixed]) -> None:
    families = judgement.corpus.families
    for family, label in judgement.missed():
        print(f"missed: {label.kind} at {label.fields} of {family.name} ({family.scenario})", file=sys.stderr)
    for at, found in judgement.wrong:
        name = "two families" if at is None else f"{families[at].name} ({families[at].scenario})"
        told = f"{found.kind} at {found.field}, character {found.char_offset}, for {found.family_requests} requests"
        print(f"wrong: {told} in {name}: {found.left[:60]!r} | {found.right[:60]!r}", file=sys.stderr)
    for each in fixed:
        if not each.is_kept:
            told = f"{each.before:.3f} -> {each.promised:.3f}, reached {each.reached:.3f}"
            print(f"not kept: {each.finding.kind} at {each.finding.field}: {told}", file=sys.stderr)


def _summary(judgements: Sequence[Judgement], fixed: Sequence[Sequence[Fixed]]) -> dict[str, Any]:
    overall = [_ratios(each.counts()) for each in judgements]
    return {
        "corpus": _about([each.corpus for each in judgements]),
        "kinds": {kind.value: _ratios(_added([each.counts(kind) for each in judgements])) for kind in FAULTS},
        "others": _others(judgements),
        "overall": _ratios(_added([each.counts() for each in judgements])),
        "precision": spread([each["precision"] for each in overall]),
        "recall": spread([each["recall"] for each in overall]),
        "findings_on_clean": sum(len(each.on_clean()) for each in judgements),
        "fixes": _kept([each for many in fixed for each in many]),
    }


def _about(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """Of one seed what all have, of the others the sums."""
    families = [family for corpus in corpora for family in corpus.families]
    clean = [family for family in families if not family.expected]
    return {
        "families_per_seed": len(corpora[0].families),
        "families": len(families),
        "requests": sum(len(family.requests) for family in families),
        "clean_families": len(clean),
        "clean_requests": sum(len(family.requests) for family in clean),
        "near_misses": sum(family.name.startswith("near-miss/") for family in clean),
        "languages": sorted({family.language for family in families}),
        "labels": sum(len(family.expected) for family in families),
    }


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(each[name] for each in counts) for name in counts[0]}


def _ratios(counts: dict[str, int]) -> dict[str, Any]:
    """Beside the counts: of all findings those that are right, of all labels those that were found."""
    told, labels = counts["found"] + counts["wrong"], counts["labels"]
    return counts | {
        "precision": round(counts["found"] / told, 4) if told else None,
        "recall": round(counts["found"] / labels, 4) if labels else None,
    }


def _others(judgements: Sequence[Judgement]) -> dict[str, int]:
    """Wrong findings of a kind that no label has."""
    kinds = [kind for kind in Kind if kind not in FAULTS]
    return {kind.value: sum(each.counts(kind)["wrong"] for each in judgements) for kind in kinds}


def _kept(fixed: Sequence[Fixed]) -> dict[str, Any]:
    ratios = [round(each.reached / each.promised, 4) for each in fixed if each.promised]
    return {
        "fixes": len(fixed),
        "kept": sum(each.is_kept for each in fixed),
        "kept_from": KEPT_SHARE,
        "reached_over_promised": spread(ratios) if ratios else None,
        "cached_share_before": spread([round(each.before, 4) for each in fixed]) if fixed else None,
        "cached_share_after": spread([round(each.reached, 4) for each in fixed]) if fixed else None,
    }


def _scale(count: int, options: argparse.Namespace) -> dict[str, Any]:
    print(f"reading {count} requests of {TOKENS} tokens", file=sys.stderr)
    return measured(count, options.seeds[0], options.memory * _MIB).told()


def _in_words(result: dict[str, Any]) -> str:
    overall, kept, scale = result["overall"], result["fixes"], result["scale"]
    read = f"; {scale['requests_per_s']:,.0f} requests/s, {scale['peak_rss_bytes'] / _MIB:,.0f} MiB" if scale else ""
    return (
        f"precision {overall['precision']}, recall {overall['recall']}, {result['findings_on_clean']} findings on "
        f"clean families; {kept['kept']} of {kept['fixes']} fixes kept their word{read}"
    )


if __name__ == "__main__":
    sys.exit(main())
