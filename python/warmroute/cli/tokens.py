"""`warmroute tokens`: what a prompt becomes, where two prompts part, and whether an engine sees the same."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence

import aiohttp

from warmroute.cli import tokens_check, tokens_check_view, tokens_diff, tokens_diff_view, tokens_view
from warmroute.cli.tokens_body import NamedBody, read_bodies
from warmroute.cli.tokens_check import BodyResult
from warmroute.cli.tokens_engine import AskedEngine
from warmroute.cli.tokens_options import NamedTokenizers, TokensOptions
from warmroute.cli.tokens_prompt import ToldBody, as_json, read_prompt, tell
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.errors import ConfigError
from warmroute.openai_api import Match

# Bodies that an engine is asked for side by side.
_AT_ONCE = 4

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
    modes.add_argument("--check", metavar="URL", help="ask the engine at URL for the same tokens, and compare")
    parser.add_argument("--path", metavar="PATH", help="the endpoint that the bodies are for, such as /v1/messages")
    parser.add_argument("--text", action="store_true", help="the files hold plain text, not bodies")
    parser.add_argument("--model", metavar="NAME", help="for --check: the engine's name for the model, not the body's")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="for --check: a header that the engine wants, such as 'Authorization: Bearer KEY'; may be repeated",
    )
    parser.add_argument("--full", action="store_true", help="shorten nothing")
    parser.add_argument("--json", action="store_true", help="write JSON, one object a line, nothing shortened")
    add_options(parser, TokensOptions)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked; the exit code says what was found."""
    options = from_namespace(TokensOptions, arguments, environ=os.environ)
    if arguments.path is not None and arguments.text:
        raise ConfigError("--text and --path exclude each other: a plain text is the prompt of a completion")
    bodies = read_bodies(arguments.bodies, path=arguments.path, as_text=arguments.text)
    if arguments.check is not None:
        return _check(bodies, arguments, options)
    return (_diff if arguments.diff else _show)(bodies, arguments, options)


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


def _diff(bodies: Sequence[NamedBody], arguments: argparse.Namespace, options: TokensOptions) -> int:
    if len(bodies) != 2:
        raise ConfigError(f"--diff compares two bodies, not {len(bodies)}")
    tokenizers = NamedTokenizers(options)
    first, second = (told(named, tokenizers, options) for named in bodies)
    difference = tokens_diff.compare(first, second)
    if arguments.json:
        write_json(tokens_diff.as_json(difference))
    else:
        tokens_diff_view.print_difference(difference)
    return 1 if difference.diverges or not difference.same_namespace else 0


def _check(bodies: Sequence[NamedBody], arguments: argparse.Namespace, options: TokensOptions) -> int:
    tokenizers = NamedTokenizers(options)
    url = arguments.check.rstrip("/")
    headers = [_header(text) for text in arguments.header]
    results = asyncio.run(
        _results([told(named, tokenizers, options) for named in bodies], url, headers, arguments.model)
    )
    if arguments.json:
        write_json(tokens_check.as_json(url, results))
    else:
        tokens_check_view.print_results(url, results)
    return tokens_check.exit_code(results)


async def _results(
    bodies: Sequence[ToldBody], url: str, headers: Sequence[tuple[str, str]], model: str | None
) -> list[BodyResult]:
    free = asyncio.Semaphore(_AT_ONCE)
    async with aiohttp.ClientSession() as session:
        engine = AskedEngine(session, url, headers, model)

        async def ask(body: ToldBody) -> BodyResult:
            async with free:
                return tokens_check.judge(body, await engine.ask(body))

        return list(await asyncio.gather(*map(ask, bodies)))


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ConfigError(f"'{text}' is no header; write --header 'NAME: VALUE'")
    return name.strip(), value.strip()


def told(named: NamedBody, tokenizers: NamedTokenizers, options: TokensOptions) -> ToldBody:
    """The tokens of a body by the tokenizer of its model."""
    prompt = read_prompt(named)
    return tell(named, tokenizers.of(prompt.model), prompt, options)


def write_json(value: object) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
