"""What `warmroute serve` can be told, on the command line, in the environment and in `warmroute.toml`."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from warmroute.config import LONGEST_S, SHORTEST_S, check_range, option, reject_unknown_keys
from warmroute.errors import ConfigError
from warmroute.policy import POLICIES, SHAPE, check_policy_name
from warmroute.tokenizer import Dialect
from warmroute.worker import LARGEST_COUNT, WorkerSpec


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Every option of the router; see each one's help. `RelayOptions` has those of the relay."""

    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 for every interface")
    port: int = option(8080, "port to listen on; 0 takes a free one")
    worker: tuple[str, ...] = option(
        (), "base URL of an engine, such as http://10.0.0.5:8000; may be repeated", live=True
    )
    policy: str = option(
        "warmroute",
        f"how a worker is chosen: {', '.join(POLICIES)}, or {SHAPE} for one of your own, which is looked for in the "
        "current folder as well",
        metavar="POLICY",
        live=True,
    )
    tokenizer: tuple[str, ...] = option(
        (),
        "the models' tokenizer: a folder, a tokenizer.json, a packaged name or a hub id; MODEL=SOURCE for one model of "
        "several, may be repeated; 'engine' always asks the engines, 'auto', as without it, only where the folder or "
        "hub id that an engine names is not on this machine or not the same",
        metavar="SOURCE",
    )
    chat_template: str | None = option(
        None, "file with the chat template to use in place of the models' own, as vLLM's option", metavar="FILE"
    )
    trust_request_chat_template: bool = option(
        False, "render chat templates that requests bring, as vLLM with this flag; others are never rendered"
    )
    dialect: str = option(
        "auto",
        "whose rendering of conversations is followed; auto: that of the engines that serve the model",
        choices=("auto", *Dialect),
    )
    tokenizer_threads: int = option(2, "threads that tokenize prompts too long for the event loop")
    tokenizer_cache_mb: int = option(
        128, "MiB of text and ids that each tokenizer keeps, so that only what is new is encoded; 0 keeps nothing"
    )
    model: str | None = option(None, "the model that workers serve, where they cannot be asked", live=True)
    block_size: int | None = option(None, "tokens per KV block, where workers do not say", live=True)
    probe_interval_s: float = option(1.0, "seconds between two looks at each worker's health and load", live=True)
    probe_timeout_s: float = option(2.0, "seconds that a worker may take to answer a probe")
    event_threads: int | None = option(
        None, "threads that take in the workers' KV events; as many as there are cores less one, up to 4, if not given"
    )
    # Two seconds are the prefill of 36,000 tokens. Whoever is told later has waited longer than a miss costs most
    # prompts; a prompt of a million tokens is encoded within them, and a conversation that was seen before in a few ms.
    tokenize_timeout_s: float = option(
        2.0, "seconds, waiting for a thread or an engine included, after which a request is routed without its tokens"
    )
    max_attempts: int = option(3, "workers to try, before the first byte, when one fails", live=True)
    grace_s: float = option(30.0, "seconds that requests in flight get to finish at shutdown", live=True)
    drain_delay_s: float = option(
        0.0,
        "seconds between SIGTERM, when /ready begins to say 503, and the end of accepting; for load balancers",
        live=True,
    )
    take_over: bool = option(
        False,
        "take the listening sockets of the router that runs on the same state file, and let it finish; without one, "
        "start as usual",
    )
    hand_over_grace_s: float = option(
        3600.0, "seconds that requests in flight get to finish once another router has taken over", live=True
    )
    state_file: str | None = option(
        None,
        "file in which a restarted router finds what the caches hold; '' keeps none "
        "(default: PORT.index in the folder warmroute of $XDG_STATE_HOME or ~/.local/state; none with --port 0)",
        metavar="FILE",
    )
    state_interval_s: float = option(30.0, "seconds between two writings of the state file", live=True)
    watch_config: bool = option(
        True, "take over changes of the configuration's files while running, as SIGHUP does in any case", live=True
    )
    seed: int | None = option(None, "seed of the choice among equal workers; random if not given")
    log_level: str = option("info", "how much is logged", choices=("debug", "info", "warning", "error"), live=True)

    def __post_init__(self) -> None:
        check_range(self, 0, 65535, "port")
        check_range(self, SHORTEST_S, LONGEST_S, "probe_interval_s", "probe_timeout_s", "tokenize_timeout_s")
        check_range(self, 0, LONGEST_S, "grace_s", "drain_delay_s", "hand_over_grace_s")
        check_range(self, SHORTEST_S, LONGEST_S, "state_interval_s")
        check_range(self, 0, 1_048_576, "tokenizer_cache_mb")
        check_range(self, 1, 1024, "tokenizer_threads", "event_threads", "max_attempts")
        check_range(self, 1, LARGEST_COUNT, "block_size")
        check_policy_name(self.policy)
        tokenizer_choice(self.tokenizer)


@dataclass(frozen=True, slots=True)
class TokenizerChoice:
    """What `--tokenizer` says: the source for all models, those of single ones, and whether to look for others."""

    for_all: str | None
    own: Mapping[str, str]
    auto: bool


def tokenizer_choice(named: tuple[str, ...]) -> TokenizerChoice:
    """The sources of tokenizers. Raises ConfigError for two of one kind."""
    for_all: list[str] = []
    own: dict[str, str] = {}
    for entry in named:
        model, equals, source = entry.partition("=")
        if not equals or Path(entry).expanduser().exists():
            for_all.append(entry)
        elif not model or not source or model in own:
            raise ConfigError(f"'{entry}' in --tokenizer must be MODEL=SOURCE, once for each model")
        else:
            own[model] = source
    if len(for_all) > 1:
        raise ConfigError(f"--tokenizer has {len(for_all)} sources for all models; write MODEL=SOURCE for each model")
    word = for_all[0] if for_all else "auto"
    return TokenizerChoice(None if word in ("auto", "engine") else word, own, word == "auto")


def state_path(config: ServeConfig, environ: Mapping[str, str]) -> Path | None:
    """Where the router keeps its state, as XDG lays folders out; None: nowhere.

    A port that the system chooses is another one after a restart, so nothing would be found under it.
    """
    if config.state_file is not None:
        return _expanded(config.state_file) if config.state_file else None
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # relative ones are invalid, says XDG
        base = f"{environ['HOME']}/.local/state" if environ.get("HOME") else ""
    return Path(base) / "warmroute" / f"{config.port}.index" if base and config.port else None


def _expanded(file: str) -> Path:
    try:
        return Path(file).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"state_file {file} is nowhere: {error}") from error


def read_config_file(path: Path) -> tuple[dict[str, Any], tuple[WorkerSpec, ...]]:
    """The options and the `[[workers]]` of a TOML file; raises ConfigError naming the line or the key."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    if isinstance(values.get("worker"), list) and any(isinstance(entry, dict) for entry in values["worker"]):
        raise ConfigError(f"{path} has [[worker]] tables; write [[workers]] above each ('worker' is a list of URLs)")
    _join_tokenizers(values, path)
    workers = values.pop("workers", [])
    if not isinstance(workers, list):
        raise ConfigError(f"'workers' in {path} must be a list of tables: write [[workers]] above each")
    return values, tuple(worker_spec(worker, where=f"[[workers]] of {path}") for worker in workers)


def _join_tokenizers(values: dict[str, Any], path: Path) -> None:
    """`tokenizer = "SOURCE"` and the table `[tokenizers]`, model = source, become the list that the option is."""
    if isinstance(values.get("tokenizer"), str):
        values["tokenizer"] = [values["tokenizer"]]
    own = values.pop("tokenizers", {})
    if not isinstance(own, dict) or not all(isinstance(source, str) for source in own.values()):
        raise ConfigError(f'[tokenizers] in {path} must have lines such as "Qwen/Qwen3-32B" = "/models/qwen3"')
    if own:
        named = values.get("tokenizer", [])
        listed = [f"{model}={source}" for model, source in own.items()]
        values["tokenizer"] = [*named, *listed] if isinstance(named, list) else named


def worker_spec(values: Any, *, where: str) -> WorkerSpec:
    """A WorkerSpec from a table of a file or an object of the admin interface; raises ConfigError."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"a worker in {where} must be a table with a url, not {values!r}")
    kinds = {field.name: str if "str" in str(field.type) else int for field in dataclasses.fields(WorkerSpec)}
    reject_unknown_keys(values, kinds, where=where)
    if "url" not in values:
        raise ConfigError(f"a worker in {where} has no url")
    for key, value in values.items():
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise ConfigError(f"'{key}' in {where} must be of type {kinds[key].__name__}, not {value!r}")
        if isinstance(value, int) and not 0 < value <= LARGEST_COUNT:
            raise ConfigError(f"'{key}' in {where} must be above 0 and at most {LARGEST_COUNT}, not {value}")
    _check_endpoints(values, where)
    return WorkerSpec(**{**values, "url": worker_url(values["url"], where=where)})


def _check_endpoints(values: Mapping[str, Any], where: str) -> None:
    """`kv_events` is published (tcp, ipc) or polled (http); only what is published can be replayed."""
    for key in ("kv_replay", "kv_ranks"):
        if key in values and "kv_events" not in values:
            raise ConfigError(f"'{key}' in {where} needs 'kv_events' beside it")
    for key, schemes in (("kv_events", ("tcp", "http", "https")), ("kv_replay", ("tcp",))):
        if key in values:
            _check_endpoint(values[key], schemes, f"'{key}' in {where}")


def _check_endpoint(text: str, schemes: tuple[str, ...], what: str) -> None:
    try:
        parts = urlsplit(text)
        usable = (parts.scheme in schemes and bool(parts.hostname and parts.port)) or text.startswith("ipc://")
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{what} cannot be connected to: '{text}'; write {schemes[0]}://HOST:PORT")


def worker_url(text: str, *, where: str) -> str:
    """A worker's base URL, checked and without trailing slash; raises ConfigError with what to write instead."""
    if "," in text:
        raise ConfigError(f"'{text}' in {where} is more than one URL; repeat --worker for each")
    # Python's parser passes over line ends and tabs, which the wire would not.
    if any(not "!" <= character <= "~" for character in text):
        raise ConfigError(f"{text!r} in {where} holds a character that no URL has")
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigError(f"'{text}' in {where} is no worker URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"'{text}' in {where} is no worker URL; write http://HOST:PORT or https://HOST:PORT")
    if _port(parts, f"'{text}' in {where}") == 0:
        raise ConfigError(f"'{text}' in {where} has no valid port: nobody listens on 0")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"'{text}' in {where} must be a base URL without user, query or fragment")
    # Of a host's name the case does not count: one worker must not be entered twice.
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _port(parts: SplitResult, what: str) -> int | None:
    try:
        return parts.port
    except ValueError as error:
        raise ConfigError(f"{what} has no valid port: {error}") from error


def worker_specs(config: ServeConfig, from_file: tuple[WorkerSpec, ...]) -> tuple[WorkerSpec, ...]:
    """All configured workers, each URL once, with the fleet-wide answers filled in where a worker has none."""
    named = tuple(WorkerSpec(worker_url(url, where="--worker")) for url in config.worker)
    specs: dict[str, WorkerSpec] = {}
    for spec in named + from_file:
        if spec.id in specs:
            raise ConfigError(f"worker {spec.url} is given twice")
        specs[spec.id] = with_defaults(spec, config)
    return tuple(specs.values())


def with_defaults(spec: WorkerSpec, config: ServeConfig) -> WorkerSpec:
    """`spec` with the fleet-wide model filled in; the block size is a fallback for discovery, not an override."""
    return dataclasses.replace(spec, model=spec.model or config.model)
