"""What the doctor tells: for each place at which a shared prefix is lost the kind, the cost and the fix."""

from dataclasses import dataclass, field, fields
from typing import Protocol

from warmroute.doctor.kind import Kind
from warmroute.openai_api import JsonObject


class Fix(Protocol):
    """A change to the bodies of a family."""

    def apply(self, body: JsonObject) -> JsonObject:
        """The body as it should have been sent; a new object, and an equal one where nothing is to be changed."""


@dataclass(frozen=True, slots=True)
class Told:
    """One place at which the requests of a family part although they go on alike, as a report tells it.

    family: stable name of the family. field: such as `messages[0].content`. char_offset: of the first character that
    differs, within that field. token_offset, block: the same in the prompt. left, right: what two requests have there,
    shortened unless the texts were asked for. left_request, right_request: which two, counted from 0.
    requests: how many of the family compute at least a block less with the fix. family_requests: of the family in all.
    tokens_lost: prompt tokens computed that need not have been. prefill_s_lost: the same in GPU seconds. share_lost: of
    all prompt tokens that were computed. cached_share_before, cached_share_after: of the family's prompt tokens, in one
    cache without end; `after` counts the bodies that the fix makes.
    """

    kind: Kind
    family: str
    field: str
    char_offset: int
    token_offset: int
    block: int
    left: str
    right: str
    left_request: int
    right_request: int
    requests: int
    family_requests: int
    tokens_lost: int
    prefill_s_lost: float
    share_lost: float
    cached_share_before: float
    cached_share_after: float
    suggestion: str


@dataclass(frozen=True, slots=True)
class Finding(Told):
    """The same, with what mends it.

    fix: also does what is needed first, where something in front breaks the prefix as well. example: the body of
    `right_request` as it was sent, if those are kept.
    """

    fix: Fix
    example: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What was looked at.

    prompt_tokens, cached_share: of all requests, in one cache without end. possible_share: with every fix applied.
    bytes_per_token: tokens were told from bytes; None where they are a tokenizer's. dropped: what was not looked at for
    want of memory, or could not be read: how many, by the reason.
    """

    requests: int
    families: int
    prompt_tokens: int
    cached_share: float
    possible_share: float
    block_tokens: int
    bytes_per_token: float | None
    dropped: dict[str, int]

    @property
    def reached_share(self) -> float:
        """Of the reuse that is possible the part that there is; all of none."""
        return self.cached_share / self.possible_share if self.possible_share else 1.0


@dataclass(frozen=True, slots=True)
class Report(Counts):
    """All findings of a log, the most tokens lost first."""

    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ToldReport(Counts):
    """A report as it is written down: without what mends."""

    findings: list[Told] = field(default_factory=list)


def told(report: Report) -> ToldReport:
    """The report as it is written down."""
    findings = [
        Told(**{each.name: getattr(finding, each.name) for each in fields(Told)}) for finding in report.findings
    ]
    return ToldReport(**{each.name: getattr(report, each.name) for each in fields(Counts)}, findings=findings)
