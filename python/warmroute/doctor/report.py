"""What the doctor tells: for each place at which a shared prefix is lost the kind, the cost and the fix."""

from dataclasses import dataclass, field
from typing import Protocol

from warmroute.doctor.kind import Kind
from warmroute.openai_api import JsonObject


class Fix(Protocol):
    """A change to the bodies of a family."""

    def apply(self, body: JsonObject) -> JsonObject:
        """The body as it should have been sent; a new object, and an equal one where nothing is to be changed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One place at which the requests of a family part although they go on alike.

    family: stable name of the family. field: such as `messages[0].content`. char_offset: of the first character that
    differs, within that field. token_offset, block: the same in the prompt. left, right: what two requests have there,
    shortened unless the texts were asked for. left_request, right_request: which two, counted from 0.
    requests: how many of the family compute more than they would with the fix. tokens_lost: prompt tokens computed that
    need not have been. prefill_s_lost: the same in GPU seconds. share_lost: of all prompt tokens that were computed.
    example: the body of `right_request` as it was sent, if those are kept. family_requests: of the family in all.
    cached_share_before, cached_share_after: of the family's prompt tokens, in one cache without end; `after` counts the
    bodies that `fix` makes. fix: also does what is needed first, where something in front breaks the prefix as well.
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
    fix: Fix
    example: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of a log, the most tokens lost first.

    prompt_tokens, cached_share: of all requests, in one cache without end. possible_share: with every fix applied.
    estimated: tokens were told from bytes, `bytes_per_token` each. dropped: what was not looked at for want of memory,
    or could not be read: how many, by the reason.
    """

    requests: int
    families: int
    prompt_tokens: int
    cached_share: float
    possible_share: float
    block_tokens: int
    bytes_per_token: float | None
    findings: list[Finding] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
