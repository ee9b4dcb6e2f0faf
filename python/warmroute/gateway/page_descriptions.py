"""What each of the router's own pages takes and gives, beside the code that answers them."""

from collections.abc import Mapping
from typing import Any

from warmroute.config import LONGEST_S
from warmroute.gateway import page_types as types
from warmroute.gateway.index_report import CheckReport, IndexReport, LoadReport
from warmroute.gateway.own_page import Content, Description, Parameter

_URL: Mapping[str, Any] = {"type": "string", "examples": ["http://10.0.0.7:8000"]}
_SECONDS: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": LONGEST_S}
_NAMED = (Parameter("url", "the worker's URL", _URL), Parameter("name", "or its name"))
_STATE_FILE = "application/octet-stream"

BAD_WORKER = Content("the worker cannot be used, or none is named; the message says why", types.ErrorPage)
NO_SUCH_WORKER = Content("no such worker is registered", types.ErrorPage)
_NO_WORKER_READY = Content("no worker that could take it is ready", types.ExplainedRefusal)

HEALTH = Description("Whether the process runs", {200: Content("it does", types.Health)})
READY = Description(
    "Whether requests should be sent here",
    {
        200: Content("a worker is ready, and what the workers hold is known", types.Ready),
        503: Content("no worker is, or their caches are being learned, or the router is shutting down", types.NotReady),
    },
)
METRICS = Description("Prometheus metrics", {200: Content("Prometheus text", media_type="text/plain")})
MODELS = Description("The models of all workers", {200: Content("as OpenAI's page of models", types.Models)})
WORKERS = Description("The workers: state, facts, load, rates, KV events", {200: Content("all workers", types.Workers)})
ADD_WORKER = Description(
    "Take a worker in",
    {201: Content("it is being asked what it is", types.AddedWorker), 400: BAD_WORKER},
    body=Content("the worker", types.NewWorker),
)
REMOVE_WORKER = Description(
    "Let a worker go; its requests in flight are finished",
    {200: Content("it is gone", types.RemovedWorker), 400: BAD_WORKER, 404: NO_SUCH_WORKER},
    parameters=_NAMED,
    body=Content("the worker, where the query names none", types.NamedWorker),
)
DRAIN = Description(
    "Send a worker nothing more, and wait until what it has is done",
    {
        200: Content("nothing of this router is left there", types.DrainReport),
        202: Content("requests are left; ask again", types.DrainReport),
        400: Content("no worker is named, or the time is none", types.ErrorPage),
        404: NO_SUCH_WORKER,
    },
    parameters=(
        *_NAMED,
        Parameter("timeout_s", "how long to wait, in seconds; 30 if not given", _SECONDS),
    ),
)
TAKE_BACK = Description(
    "Send a worker that is being drained requests again",
    {200: Content("it gets requests", types.DrainReport), 400: BAD_WORKER, 404: NO_SUCH_WORKER},
    parameters=_NAMED,
)
EXPLAIN = Description(
    "The decision that a request would get now, without sending it, and what would have had to change for another",
    {
        200: Content("a decision: each worker's cost, and the runner-up", types.Explanation),
        400: Content("the body is no request of the endpoint", types.ErrorPage),
        404: Content("no worker serves the model", types.ExplainedRefusal),
        503: _NO_WORKER_READY,
    },
    parameters=(Parameter("path", "the endpoint that the body is for, such as /v1/messages; else guessed"),),
    body=Content("a request's body"),
)
STATE = Description("The router: policy, index, counts", {200: Content("its state", types.RouterState)})
RELOAD = Description(
    "Read the configuration anew and take over what has changed",
    {
        200: Content("what has changed, and what needs a restart", types.ReloadReport),
        409: Content("it cannot be used, and nothing has changed", types.ReloadReport),
    },
)
OPENAPI = Description("This description", {200: Content("OpenAPI 3.1", dict[str, Any])})

INDEX = Description("What is known of each cache", {200: Content("lane by lane", IndexReport)})
INDEX_DUMP = Description(
    "Everything that is confirmed", {200: Content("a state file, as it is kept on disk", media_type=_STATE_FILE)}
)
INDEX_LOAD = Description(
    "Go on from the lanes of a state file; each is verified against its engine",
    {
        200: Content("what became of each lane", LoadReport),
        400: Content("the body is no state file", types.ErrorPage),
    },
    body=Content("a state file", media_type=_STATE_FILE),
)
INDEX_CHECK = Description("Have the index examine itself", {200: Content("what was found", CheckReport)})
