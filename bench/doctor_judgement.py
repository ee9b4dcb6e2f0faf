"""What a diagnosis of the labelled corpus is worth: right and wrong findings, and whether the fixes keep their word.

A finding is right where the two requests that it shows are of one family, it claims no more requests than that family
has, and its kind and field are of a label. A label is found where right findings claim half of the family's requests,
in one piece or in several, as where each conversation is taken for itself.

Reuse is counted by the simulator, which knows nothing of the doctor: its cache without end, asked for the prompts in
the order in which they came.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.doctor_corpus import Corpus, Expected, Family

from warmroute.doctor import Finding, Kind, Report
from warmroute.engine_model import EngineOptions
from warmroute.openai_api import ChatContent, JsonObject
from warmroute.request_log.blocks import Blocking
from warmroute.request_log.bodies import parsed
from warmroute.request_log.request import LoggedRequest, ToldPrompt
from warmroute.simulator.logs.logged_workload import LoggedWorkload
from warmroute.simulator.workload import FleetPlan
from warmroute.simulator.workloads.reuse import reuse

KEPT_SHARE = 0.95
"""Of a promised share of cached tokens at least so much has to be reached."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of a right finding's fix. reached, promised: shares of the family's prompt tokens in the cache."""

    finding: Finding
    before: float
    promised: float
    reached: float

    @property
    def is_kept(self) -> bool:
        """Whether the promise was true, nearly."""
        return self.reached >= KEPT_SHARE * self.promised


@dataclass(frozen=True, slots=True)
class Judgement:
    """labels: each label with its family. found: those of them that were found. right, wrong: the findings."""

    corpus: Corpus
    labels: Sequence[tuple[int, Expected]]
    found: frozenset[tuple[int, Expected]]
    right: Sequence[tuple[int, Expected, Finding]]
    wrong: Sequence[tuple[int | None, Finding]]

    def missed(self) -> Iterator[tuple[Family, Expected]]:
        """Labels that were not found."""
        return ((self.corpus.families[at], label) for at, label in self.labels if (at, label) not in self.found)

    def on_clean(self) -> list[tuple[Family, Finding]]:
        """Findings about requests of a family in which nothing is wrong."""
        families = self.corpus.families
        return [(families[at], each) for at, each in self.wrong if at is not None and not families[at].expected]

    def counts(self, kind: Kind | None = None) -> dict[str, int]:
        """Labels, those found, and wrong findings, of one kind or of all. However many findings meet one label, it is
        found once: what is easily found many times does not make up for what is wrong."""
        return {
            "labels": sum(kind in (None, label.kind) for _, label in self.labels),
            "found": sum(kind in (None, label.kind) for _, label in self.found),
            "wrong": sum(kind in (None, finding.kind) for _, finding in self.wrong),
        }


def judged(corpus: Corpus, report: Report) -> Judgement:
    """The findings of a report on the whole corpus, beside its labels."""
    right, wrong = list[tuple[int, Expected, Finding]](), list[tuple[int | None, Finding]]()
    for finding in report.findings:
        at = _family(corpus, finding)
        label = None if at is None else _label(corpus.families[at], finding)
        if at is None or label is None:
            wrong.append((at, finding))
        else:
            right.append((at, label, finding))
    labels = [(at, label) for at, family in enumerate(corpus.families) for label in family.expected]
    found = frozenset(each for each in labels if _covers_half(corpus, each, right))
    return Judgement(corpus, labels, found, right, wrong)


def _covers_half(corpus: Corpus, label: tuple[int, Expected], right: Sequence[tuple[int, Expected, Finding]]) -> bool:
    pieces = {finding.family: finding.family_requests for *each, finding in right if tuple(each) == label}
    return 2 * sum(pieces.values()) >= len(corpus.families[label[0]].requests)


def _family(corpus: Corpus, finding: Finding) -> int | None:
    """The number of the family that has both requests; None where they are of two."""
    left, right = (corpus.log[each][0] for each in (finding.left_request, finding.right_request))
    return left if left == right else None


def _label(family: Family, finding: Finding) -> Expected | None:
    if finding.family_requests > len(family.requests):
        return None
    labels = (each for each in family.expected if each.kind is finding.kind and each.is_at(finding.field))
    return next(labels, None)


def fixes(judgement: Judgement, report: Report) -> list[Fixed]:
    """Each right finding's fix, applied to the family that it was found in."""
    blocking = Blocking(report.block_tokens, bytes_per_token=report.bytes_per_token or 4.0)
    done = list[Fixed]()
    for at, _, finding in judgement.right:
        requests = judgement.corpus.families[at].requests
        bodies = [finding.fix.apply(each.body) for each in requests]
        reached = cached_share(bodies, [each.path for each in requests], blocking)
        done.append(Fixed(finding, finding.cached_share_before, finding.cached_share_after, reached))
    return done


def cached_share(bodies: Sequence[JsonObject], paths: Sequence[str | None], blocking: Blocking) -> float:
    """Of the prompt tokens of these requests the share that the simulator's cache without end has."""
    requests = [
        blocking.blocked(LoggedRequest(float(at), _prompt(body, path)))
        for at, (body, path) in enumerate(zip(bodies, paths, strict=True))
    ]
    engine = EngineOptions(block_size=blocking.block_tokens)
    return reuse(LoggedWorkload("family", "of the corpus", FleetPlan((engine,)), requests), seed=0).cached_share


def _prompt(body: JsonObject, path: str | None) -> ToldPrompt:
    """The prompt with what keeps it apart from equal ones: model, adapter and salt."""
    prompt = parsed(body, path)
    (content,) = prompt.contents
    day = content.client_options.get("date_string") if isinstance(content, ChatContent) else None
    if isinstance(content, ChatContent) and day is not None:
        # Llama's template writes it in front of the system prompt.
        content = replace(content, messages=[{"role": "system", "content": day}, *content.messages])
    adapter = body.get("lora_path")
    model = prompt.model if adapter is None else f"{prompt.model}:{adapter}"
    return ToldPrompt(content, model, prompt.namespace.salt, prompt.exact)
