"""Whether an engine sees the tokens that are told here, body by body and page by page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warmroute.cli.tokens_engine import Answered, EngineAnswer
from warmroute.cli.tokens_hint import hint_from_text
from warmroute.cli.tokens_pieces import Piece, pieces_of_ids
from warmroute.cli.tokens_prompt import ToldBody, ToldContent, piece_json
from warmroute.errors import TemplateError
from warmroute.openai_api import Match, TokenContent
from warmroute.tokenizer import Dialect
from warmroute.tokenizer.engine_questions import TOKENIZE_PATH

_BEFORE, _AFTER = 12, 16


class Verdict(StrEnum):
    """How ours and the engine's compare; the words are stable."""

    EQUAL = "equal"
    """The same ids; or, where only a beginning is told, that beginning."""
    DIFFERENT = "different"
    REFUSED_BY_BOTH = "refused-by-both"
    """No tokens can be told here, and the engine refuses the body, too."""
    GIVEN = "given"
    """The body came as ids, so that there is nothing to compare."""
    UNTOLD = "untold"
    """No tokens can be told here, and the engine tells some."""
    REFUSED = "refused"
    """The engine refuses a body whose tokens are told here."""
    FAILED = "failed"
    """The engine did not answer, or not what it should."""
    MISSING = "missing"
    """The engine has no page that would tell."""


FINE = (Verdict.EQUAL, Verdict.REFUSED_BY_BOTH, Verdict.GIVEN)
# Which page's verdict is that of the body: a difference anywhere, else whatever was compared, else the first of these.
_WEIGHT = tuple(Verdict)
_OF_ANSWER = {
    Answered.MISSING: Verdict.MISSING,
    Answered.REFUSED: Verdict.REFUSED,
    Answered.FAILED: Verdict.FAILED,
}


@dataclass(frozen=True, slots=True)
class Parting:
    """Where ours and the engine's part: the index of the first token that is not the same, and tokens around it.

    Of `ours` and `engine` the first is token `first`.
    """

    token: int
    first: int
    ours: Sequence[Piece]
    engine: Sequence[Piece]
    tokens: tuple[int, int]
    cause: str | None


@dataclass(frozen=True, slots=True)
class PageResult:
    """One page's answer for one prompt of a body; `prompt` is None where there was no answer for single ones."""

    path: str
    verdict: Verdict
    prompt: int | None = None
    detail: str | None = None
    parting: Parting | None = None


@dataclass(frozen=True, slots=True)
class BodyResult:
    """All pages' answers for a body."""

    body: ToldBody
    pages: Sequence[PageResult]

    @property
    def decisive(self) -> Sequence[PageResult]:
        """The pages that count."""
        compared = (Verdict.EQUAL, Verdict.DIFFERENT)
        rendered = [page for page in self.pages if page.path != TOKENIZE_PATH and page.verdict in compared]
        return rendered or self.pages

    @property
    def verdict(self) -> Verdict:
        """That of the endpoint's own render page where it told, as that is what the engine computes; else of the rest.

        A difference counts; else that something was compared. vLLM's /tokenize (0.32) passes over `reasoning_content`.
        """
        verdicts = {page.verdict for page in self.decisive}
        if Verdict.DIFFERENT in verdicts:
            return Verdict.DIFFERENT
        if all(isinstance(content, TokenContent) for content in self.body.prompt.contents) and self.body.contents:
            verdicts.add(Verdict.GIVEN)
        if not verdicts and self.body.match is Match.NONE:
            return Verdict.UNTOLD
        return min(verdicts, key=_WEIGHT.index, default=Verdict.MISSING)


def judge(body: ToldBody, answers: Sequence[EngineAnswer]) -> BodyResult:
    """Ours beside the engine's."""
    return BodyResult(body, [page for answer in answers for page in _pages(body, answer)])


def exit_code(results: Sequence[BodyResult]) -> int:
    """0 all equal, 1 a difference, 2 where some could not be compared."""
    verdicts = {result.verdict for result in results}
    return 1 if Verdict.DIFFERENT in verdicts else 2 if verdicts - set(FINE) else 0


def as_json(url: str, results: Sequence[BodyResult]) -> dict[str, Any]:
    """The whole report."""
    counts = Counter(result.verdict.value for result in results)
    return {
        "url": url,
        "bodies": len(results),
        "counts": {verdict.value: counts[verdict.value] for verdict in Verdict if counts[verdict.value]},
        "results": [_body_json(result) for result in results],
    }


def _body_json(result: BodyResult) -> dict[str, Any]:
    return {
        "name": result.body.named.name,
        "endpoint": result.body.endpoint.value,
        "verdict": result.verdict.value,
        "match": result.body.match.value,
        "reason": result.body.reason,
        "detail": result.body.detail,
        "tokens": result.body.total,
        "pages": [_page_json(page) for page in result.pages],
    }


def _page_json(page: PageResult) -> dict[str, Any]:
    told: dict[str, Any] = {
        "path": page.path,
        "verdict": page.verdict.value,
        "prompt": page.prompt,
        "detail": page.detail,
    }
    parting = page.parting
    if parting is not None:
        told |= {
            "token": parting.token,
            "tokens": {"ours": parting.tokens[0], "engine": parting.tokens[1]},
            "first": parting.first,
            "ours": [piece_json(piece) for piece in parting.ours],
            "engine": [piece_json(piece) for piece in parting.engine],
            "cause": parting.cause,
        }
    return told


def _pages(body: ToldBody, answer: EngineAnswer) -> Iterator[PageResult]:
    path = answer.question.path
    if not body.contents:
        verdict = Verdict.REFUSED_BY_BOTH if answer.answered is Answered.REFUSED else _unanswered(answer)
        yield PageResult(path, verdict, detail=answer.detail)
        return
    if answer.answered is not Answered.TOLD:
        yield PageResult(path, _OF_ANSWER[answer.answered], detail=answer.detail)
        return
    for prompt, ids in zip(answer.question.prompts, answer.ids, strict=True):
        yield _compared(body, body.contents[prompt], prompt, path, ids)


def _unanswered(answer: EngineAnswer) -> Verdict:
    return Verdict.UNTOLD if answer.answered is Answered.TOLD else _OF_ANSWER[answer.answered]


def _compared(body: ToldBody, content: ToldContent, prompt: int, path: str, theirs: Sequence[int]) -> PageResult:
    ours = content.ids
    whole = content.complete and body.prompt.exact
    if ours == list(theirs if whole else theirs[: len(ours)]):
        detail = None if whole else f"the first {len(ours)} of the engine's {len(theirs)} tokens"
        return PageResult(path, Verdict.EQUAL, prompt, detail)
    token = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    engine = pieces_of_ids(theirs, body.tokenizer.vocabulary)
    first = max(0, token - _BEFORE)
    parting = Parting(
        token=token,
        first=first,
        ours=content.told.pieces[first : token + _AFTER],
        engine=engine.pieces[first : token + _AFTER],
        tokens=(len(ours), len(theirs)),
        cause=_cause(body, content, prompt, list(theirs), engine.text),
    )
    return PageResult(path, Verdict.DIFFERENT, prompt, parting=parting)


def _cause(body: ToldBody, content: ToldContent, prompt: int, theirs: list[int], their_text: str) -> str | None:
    """What may explain a difference, the surest first."""
    ours, vocabulary = content.ids, body.tokenizer.vocabulary
    if theirs[1:] == ours and theirs:
        return f"the engine puts {vocabulary.name(theirs[0])} before the prompt"
    if ours[1:] == theirs and ours:
        return f"the engine does not put {vocabulary.name(ours[0])} before the prompt"
    if any(token not in vocabulary for token in theirs):
        return "the engine has ids that this vocabulary lacks: it has another tokenizer"
    other = _other_dialect(body, prompt, theirs)
    if other is not None:
        return f"equal with --dialect {other.value}"
    return _cause_in_text(content.told.text, their_text)


def _cause_in_text(ours: str, theirs: str) -> str | None:
    if ours == theirs:
        return "the texts are the same, and cut into other tokens: it has another tokenizer, or another version of it"
    at = _common(ours, theirs)
    hint = hint_from_text(ours, theirs, at)
    if hint is not None:
        return f"{hint.kind}: {hint.a!r} here and {hint.b!r} there"
    return "they have nothing in common: it has another tokenizer or another chat template" if at == 0 else None


def _other_dialect(body: ToldBody, prompt: int, theirs: list[int]) -> Dialect | None:
    for dialect in Dialect:
        if dialect is not body.dialect:
            try:
                told = body.tokenizer.tokenizer.tell(body.prompt.contents[prompt], dialect)
            except TemplateError:
                continue
            if list(told.ids) == theirs:
                return dialect
    return None


def _common(a: str, b: str) -> int:
    length = min(len(a), len(b))
    return next((i for i in range(length) if a[i] != b[i]), length)
