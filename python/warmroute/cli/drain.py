"""`warmroute drain`: have a worker finish what it has and get nothing more, before it is stopped."""

import argparse
import json
import sys
import time
from typing import Any
from urllib.parse import urlencode

from warmroute.cli import router_page
from warmroute.config import LONGEST_S
from warmroute.errors import ConfigError

_PAGE = "/warmroute/workers/drain"
# How long the router is asked to wait before it says again what is left.
_LOOK_S = 1.0

_EPILOG = """\
examples:
  warmroute drain http://10.0.0.5:8000                   nothing new goes there; returns when what it has is done
  warmroute drain w-3fa41c --timeout-s 60                by its name, for at most a minute
  warmroute drain w-3fa41c --undo                        send it requests again

Its prefixes are kept until it is removed, so that one that is taken back is as warm as before.

exit codes: 0 nothing is left there; 1 requests were left when the time was over; 2 wrong usage, no such worker, or no
router answers.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("worker", metavar="WORKER", help="the worker's name or URL")
    default = router_page.DEFAULT_URL
    parser.add_argument("--url", default=default, help=f"the running router (default: {default})")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="how long to wait (default: 600)")
    parser.add_argument("--undo", action="store_true", help="send the worker requests again")
    parser.add_argument("--json", action="store_true", help="write one JSON object at the end")


def run(arguments: argparse.Namespace) -> int:
    """Drain, and wait; or take back."""
    if not 0 <= arguments.timeout_s <= LONGEST_S:
        raise ConfigError(f"--timeout-s must lie between 0 and {LONGEST_S:g}")
    if arguments.undo:
        report = _told(router_page.delete(arguments.url, _page(arguments.worker)), arguments.url)
        _tell(arguments, report, f"{report['worker']} is {report['status']}")
        return 0
    report = _drained(arguments)
    left = report["requests"]
    _tell(arguments, report, f"{report['worker']} is drained" if report["done"] else f"{left} requests are left")
    return 0 if report["done"] else 1


def _drained(arguments: argparse.Namespace) -> dict[str, Any]:
    """The last report: all is done, or the time is over. Each change is told."""
    ends_at = time.monotonic() + arguments.timeout_s
    told: int | None = None
    while True:
        left_s = max(0.0, ends_at - time.monotonic())
        page = _page(arguments.worker, timeout_s=min(_LOOK_S, left_s))
        report = _told(router_page.post(arguments.url, page), arguments.url)
        if report["done"] or left_s == 0:
            return report
        if report["requests"] != told:
            told = report["requests"]
            sys.stderr.write(f"{report['worker']}: {told} requests left\n")


def _page(worker: str, **more: Any) -> str:
    return f"{_PAGE}?{urlencode({'url' if '://' in worker else 'name': worker, **more})}"


def _told(data: bytes, url: str) -> dict[str, Any]:
    return router_page.told(data, dict[str, Any], url)


def _tell(arguments: argparse.Namespace, report: dict[str, Any], text: str) -> None:
    sys.stdout.write((json.dumps(report) if arguments.json else text) + "\n")
