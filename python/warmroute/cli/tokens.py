"""`warmroute tokens`: what a prompt becomes, where two prompts part, and whether an engine sees the same."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from warmroute.cli import tokens_view
from warmroute.cli.tokens_body import NamedBody, read_bodies
from warmroute.cli.tokens_options import NamedTokenizers, TokensOptions
from warmroute.cli.tokens_prompt import ToldBody, as_json, read_prompt, tell
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.errors import ConfigError
from warmroute.openai_api import Match

_EPILOG = """\
examples:
  warmroute tokens body.json --tokenizer Qwen/Qwen3-32B       text, ids and blocks of a request
  warmroute tokens --text prompt.txt                          of a plain text
  warmroute tokens --diff monday.json tuesday.json            where two requests part, and what that costs
  warmroute tokens --check http://10.0.0.5:8000 *.json        does that engine see the same tokens?

BODY is a file with the body of a request, or with one body a line, also in the format of OpenAI's batches; '-' is
standard input. Its endpoint is guessed from its fields, as POST /warmroute/explain does, unless --path names it.
--tokenizer and the other options of 'warmroute serve' are also read from its WARMROUTE_ variables.

exit codes: 0 fine, equal up to the end of the shorter one (--diff), all equal (--check); 1 no tokens can be told,
they part before, there is a difference; 2 wrong usage, or the engine could not be asked.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("bodies", nargs="+", metavar="BODY", help="file with a request's body; '-' is standard input")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--diff", action="store_true", help="show where two bodies part")
    parser.add_argument("--path", metavar="PATH", help="the endpoint that the bodies are for, such as /v1/messages")
    parser.add_argument("--text", action="store_true", help="the files hold plain text, not bodies")
    parser.add_argument("--full", action="store_true", help="shorten nothing")
    parser.add_argument("--json", action="store_true", help="write JSON, one object a line, nothing shortened")
    add_options(parser, TokensOptions)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked; the exit code says what was found."""
    options = from_namespace(TokensOptions, arguments, environ=os.environ)
    if arguments.path is not None and arguments.text:
        raise ConfigError("--text and --path exclude each other: a plain text is the prompt of a completion")
    bodies = read_bodies(arguments.bodies, path=arguments.path, as_text=arguments.text)
    return _show(bodies, arguments, options)


def _show(bodies: Sequence[NamedBody], arguments: argparse.Namespace, options: TokensOptions) -> int:
    tokenizers = NamedTokenizers(options)
    untold = False
    for number, named in enumerate(bodies):
        body = told(named, tokenizers, options)
        untold |= body.match is Match.NONE
        if arguments.json:
            write_json(as_json(body))
        else:
            sys.stdout.write("\n" if number else "")
            sys.stdout.flush()
            tokens_view.print_body(body, arguments.full)
    return 1 if untold else 0


def told(named: NamedBody, tokenizers: NamedTokenizers, options: TokensOptions) -> ToldBody:
    """The tokens of a body by the tokenizer of its model."""
    prompt = read_prompt(named)
    return tell(named, tokenizers.of(prompt.model), prompt, options)


def write_json(value: object) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
