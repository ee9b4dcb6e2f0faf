"""`warmroute keys`: makes API keys for `warmroute serve --api-keys`."""

import argparse
import json
import sys

from warmroute.gateway.keys import Role, new_key

_EPILOG = """\
examples:
  warmroute keys new team-a >> keys.txt                  the key is shown once, its hash goes to the file
  warmroute keys new prometheus --role admin >> keys.txt
  warmroute serve --api-keys keys.txt ...

Clients send the key as 'Authorization: Bearer KEY' or 'x-api-key: KEY'. A router that runs takes a changed file over by
itself: give out a new key, let clients change to it, and take the line of the old one out.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    summary = "make a key: the key on standard error, once, and the line for the file on standard output"
    new = actions.add_parser("new", help=summary, description=summary[0].upper() + summary[1:] + ".")
    new.add_argument("name", metavar="NAME", help="whose key it is; the tenant of the requests that come with it")
    new.add_argument(
        "--role",
        choices=tuple(Role),
        default=Role.TRAFFIC,
        help="traffic: requests to workers; admin: also the router's own pages (default: traffic)",
    )
    new.add_argument("--json", action="store_true", help="write key and line as one JSON object to standard output")


def run(arguments: argparse.Namespace) -> int:
    """Make a key. Nothing keeps it but whoever reads what is printed."""
    secret, key = new_key(arguments.name, Role(arguments.role))
    if arguments.json:
        sys.stdout.write(json.dumps({"key": secret, "line": key.line}) + "\n")
        return 0
    sys.stderr.write(f"the key, which is shown only now: {secret}\n")
    sys.stdout.write(key.line + "\n")
    return 0
