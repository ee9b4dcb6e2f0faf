"""`warmroute explain`: which worker a request would get now, what each one would cost, and what would change that."""

import argparse
import json
import sys
from typing import Any
from urllib.parse import urlencode

import msgspec

from warmroute.cli import explain_view, router_page
from warmroute.cli.router_page import PageRefused
from warmroute.cli.tokens_body import content_of
from warmroute.errors import ConfigError
from warmroute.gateway.page_types import ExplainedRefusal, Explanation
from warmroute.openai_api import Endpoint, guess_endpoint

_PAGE = "/warmroute/explain"
_MOST_SHOWN = 10

_EPILOG = """\
examples:
  warmroute explain body.json                            the decision that this request would get now
  warmroute explain body.json --url http://10.0.0.2:8081 from another router
  pbpaste | warmroute explain -                          a body from standard input
  warmroute explain body.json --workers 32               more of the workers that were considered
  warmroute explain body.json --json | jq .runner_up     what would have had to change for another worker to win

Nothing is sent to a worker, and nothing is booked. The endpoint is guessed from the body's fields unless --path names
it. What would have had to change is found by asking the router's policy again with one figure of one worker changed.
Headers can matter as well (x-session-id, x-data-parallel-rank): POST /warmroute/explain takes them, this command sends
none. A router with --api-keys wants an admin key, in the variable WARMROUTE_ADMIN_KEY.

exit codes: 0 a worker would get it; 1 the router would refuse it, such as for want of a worker; 2 wrong usage, the body
is no request, or no router answers.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("body", metavar="FILE", help="file with a request's body; '-' is standard input")
    default = router_page.DEFAULT_URL
    parser.add_argument("--url", default=default, help=f"the running router (default: {default})")
    parser.add_argument("--path", metavar="PATH", help="the endpoint that the body is for, such as /v1/messages")
    parser.add_argument(
        "--workers",
        type=int,
        default=_MOST_SHOWN,
        metavar="N",
        help=f"how many workers to show, the cheapest first (default: {_MOST_SHOWN})",
    )
    parser.add_argument(
        "--json", action="store_true", help="write the router's answer, one JSON object with all workers"
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask, and show; the exit code says whether a worker would get the request."""
    if arguments.workers < 1:
        raise ConfigError("--workers must be at least 1")
    try:
        told = _asked(arguments.url, arguments.body, arguments.path)
    except PageRefused as error:
        refusal = _refusal(error)
        if arguments.json:
            _write_json(refusal)
        else:
            explain_view.print_refusal(refusal)
        return 1
    if arguments.json:
        _write_json(told)
    else:
        explain_view.print_explanation(told, arguments.workers)
    return 0


def _asked(url: str, file: str, path: str | None) -> Explanation:
    body = content_of(file)
    if path is None and guess_endpoint(body) is Endpoint.OTHER:
        # The router guesses the same, but would speak of its query.
        raise ConfigError(f"{file} has no messages, prompt or input; name its endpoint with --path /v1/...")
    page = _PAGE if path is None else f"{_PAGE}?{urlencode({'path': path})}"
    return router_page.told(router_page.post(url, page, body), Explanation, url)


def _refusal(error: PageRefused) -> ExplainedRefusal:
    """What the router says of a request that it would refuse. Raises `error` where it refused to be asked."""
    try:
        return msgspec.json.decode(error.body, type=ExplainedRefusal)
    except msgspec.DecodeError:
        raise error from None


def _write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
