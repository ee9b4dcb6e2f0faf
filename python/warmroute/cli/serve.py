"""`warmroute serve`: the router in front of a fleet of engines."""

import argparse
import logging
import os
import resource
import sys
from pathlib import Path

import uvloop

from warmroute.admission import FailoverOptions
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace, option_names, reject_unknown_keys
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig, read_config_file, worker_specs
from warmroute.gateway.relay import RelayOptions
from warmroute.gateway.serve import serve

_EPILOG = """\
examples:
  warmroute serve --worker http://10.0.0.5:8000 --worker http://10.0.0.6:8000 --tokenizer /models/qwen3
  warmroute serve --config warmroute.toml
  warmroute serve --config warmroute.toml --policy mine:Mine            a policy of your own, from ./mine.py

warmroute.toml holds the same options, and the workers in full where they cannot be asked:
  port = 8080
  tokenizer = "/models/qwen3"

  [[workers]]
  url = "http://10.0.0.5:8000"
  kv_events = "tcp://10.0.0.5:5557"      # found by itself with vLLM 0.31 and newer, and with SGLang
  kv_replay = "tcp://10.0.0.5:5558"

Each option is also a variable: --policy is WARMROUTE_POLICY. The command line wins over the environment, the
environment over the file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `serve`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("--config", type=Path, metavar="FILE", help="a TOML file with options and workers")
    add_options(parser, ServeConfig)
    add_options(parser.add_argument_group("access"), AccessOptions)
    add_options(parser.add_argument_group("relay"), RelayOptions)
    add_options(parser.add_argument_group("failover and queue"), FailoverOptions)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop; 1 where requests had to be cut off then."""
    configuration = read_configuration(arguments)
    config = configuration.serve
    logging.basicConfig(level=config.log_level.upper(), format="%(asctime)s %(levelname)-7s %(message)s")
    if not configuration.specs:
        logging.getLogger(__name__).warning(
            "no worker is given; add some with --worker, --config or POST /warmroute/workers"
        )
    raise_file_limit()
    return 1 if uvloop.run(serve(configuration, lambda: read_configuration(arguments), _announce)) else 0


def read_configuration(arguments: argparse.Namespace) -> Configuration:
    """Options and workers from file, environment and command line. Raises ConfigError."""
    values, from_file = read_config_file(arguments.config) if arguments.config else ({}, ())
    known = option_names(ServeConfig, AccessOptions, RelayOptions, FailoverOptions)
    reject_unknown_keys(values, known + ["workers"], where=str(arguments.config))
    config = from_namespace(ServeConfig, arguments, environ=os.environ, file_values=values)
    relay_options = from_namespace(RelayOptions, arguments, environ=os.environ, file_values=values)
    access = from_namespace(AccessOptions, arguments, environ=os.environ, file_values=values)
    failover = from_namespace(FailoverOptions, arguments, environ=os.environ, file_values=values)
    specs = worker_specs(config, from_file)
    return Configuration(config, relay_options, specs, arguments.config, access, failover)


def raise_file_limit() -> None:
    """Take all the descriptors that the system allows: each request in flight needs two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _announce(url: str, admin_url: str) -> None:
    sys.stderr.write(f"warmroute listens on {url} and for operators on {admin_url}\n")
    sys.stderr.flush()
