"""What the router's own pages send, as types: mypy holds the code to them, and the OpenAPI description is made of them.

Those of the pages about the index stand in `warmroute.gateway.index_report`.
"""

from typing import Literal, NotRequired, TypedDict

from warmroute.diagnostics.explain import View
from warmroute.diagnostics.lever import Figure
from warmroute.gateway.origin import Origin
from warmroute.gateway.tokenizer_check import Standing
from warmroute.openai_api import Match
from warmroute.worker import WorkerStatus


class ErrorBody(TypedDict):
    """What went wrong; `code` is a stable word."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorPage(TypedDict):
    """An error in OpenAI's shape."""

    error: ErrorBody


class Health(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Ready(TypedDict):
    """Requests are welcome; `workers` are those that would get them."""

    ready: Literal[True]
    workers: list[str]


class NotReady(TypedDict):
    """Requests should go elsewhere. `workers`: why each one gets none."""

    ready: Literal[False]
    reason: str
    workers: dict[str, str]


class ModelEntry(TypedDict):
    """A model, as OpenAI's page of models has it; `max_model_len` is the shortest among its workers."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None


class Models(TypedDict):
    """Every model of every worker, once."""

    object: Literal["list"]
    data: list[ModelEntry]


class StreamReport(TypedDict):
    """One publisher of KV events; times are in seconds. See `warmroute.kv_event.listener` for the counts."""

    rank: int | None
    endpoint: str
    blocks: int
    connected: bool
    complete: bool
    silent: bool
    last_seq: int | None
    batches: int
    gaps: int
    replays: int
    restarts: int
    resyncs: int
    rejected: int
    undecodable: int


class ReloadReport(TypedDict):
    """What became of one reload of the configuration; with an `error` nothing has changed."""

    occasion: str
    ago_s: float
    changed: list[str]
    needs_restart: list[str]
    error: str | None


class WorkerReport(TypedDict):
    """One worker: state, facts, load, learned rates, KV events."""

    url: str
    name: str
    status: WorkerStatus
    reason: str
    origin: Origin
    models: list[str]
    block_size: int | None
    capacity_blocks: int | None
    blocks: int
    requests: int
    decoding: int
    queued_tokens: int
    avoided_for_s: float
    circuit: str
    kv_usage: float | None
    prefill_tokens_per_s: float
    decode_slope_s: float
    looked_at_s_ago: float | None
    kv_events: list[StreamReport]


class Workers(TypedDict):
    """All workers, in the order of their registration."""

    workers: list[WorkerReport]


class NewWorker(TypedDict):
    """A worker to take in; what is not given is asked from it. The keys are `WorkerSpec`'s, as in `[[workers]]`."""

    url: str
    model: NotRequired[str]
    block_size: NotRequired[int]
    capacity_blocks: NotRequired[int]
    kv_events: NotRequired[str]
    kv_replay: NotRequired[str]
    kv_topic: NotRequired[str]
    kv_ranks: NotRequired[int]
    name: NotRequired[str]
    max_requests: NotRequired[int]


class NamedWorker(TypedDict, total=False):
    """A worker that is registered: one of the two."""

    url: str
    name: str


class AddedWorker(TypedDict):
    """A worker that has been taken in."""

    worker: str
    status: WorkerStatus


class RemovedWorker(TypedDict):
    """A worker that has been let go; its requests in flight are finished."""

    worker: str
    removed: Literal[True]


class DrainReport(TypedDict):
    """How far the draining of a worker is. `requests`: those of this router; of others as the worker last told."""

    worker: str
    status: WorkerStatus
    draining: bool
    requests: int
    requests_of_others: int
    done: bool


class OverlapReport(TypedDict):
    """Leading blocks of the prompt by where they are held, and their sum."""

    blocks: int
    device: int
    host: int
    disk: int
    remote: int
    predicted: int


class ConsideredWorker(TypedDict):
    """What one worker would have cost, and of what that is made; null stands for infinite."""

    worker: str
    rank: int | None
    cost: float | None
    terms: dict[str, float | None]
    overlap: OverlapReport
    cached_tokens: int
    session_tokens: int
    view: View
    requests: int
    queued_tokens: int


class ChangeReport(TypedDict):
    """One figure of one worker, and its nearest value with which another worker would surely get the request.

    `needed`: null where none of those tried would do, up to all of the prompt, nothing of it, no load, or any number.
    """

    worker: str
    rank: int | None
    figure: Figure
    now: int
    needed: int | None


class RunnerUp(TypedDict):
    """The cheapest of the other workers. All that it tells was found by asking the policy again.

    `gap`: by how much it is dearer than the winner. `terms`: its own less the winner's: those above 0 speak for the
    winner, those below 0 for it. `changes`: of its own figures, with which it would win, and of the winner's, with
    which that would lose. `wins_if_idle`: whether it would surely win without any load. `unchangeable`: why nothing is
    known to change the decision, such as chance.
    """

    worker: str
    rank: int | None
    gap: float | None
    terms: dict[str, float | None]
    changes: list[ChangeReport]
    wins_if_idle: bool | None
    unchangeable: str | None


class Explanation(TypedDict):
    """The decision that a request would get now; workers from the cheapest to the dearest.

    `eligible`: how many workers could get it; of a large fleet `workers` are some of them only.
    """

    worker: str
    rank: int | None
    policy: str
    unit: str
    model: str | None
    prompt_tokens: int
    cached_tokens: int
    match: Match
    reason: str | None
    because: str
    runner_up: RunnerUp | None
    eligible: int
    workers: list[ConsideredWorker]


class ExplainedRefusal(TypedDict):
    """Why no worker would get the request."""

    refused: str
    detail: str


class PromptCount(TypedDict):
    """Prompts that were known so well, and the word for why not better."""

    match: Match
    reason: str | None
    count: int


class RouterState(TypedDict):
    """The router: policy, index, counts."""

    version: str
    policy: str
    uptime_s: float
    workers: dict[str, int]
    requests_in_flight: int
    prompts: list[PromptCount]
    tokenizers: dict[str, Standing]
    sessions: int
    policy_failures: int
    index: dict[str, int]
    reload: ReloadReport | None
