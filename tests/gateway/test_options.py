"""Configuration mistakes are answered with what to write instead."""

from pathlib import Path

import pytest

from warmroute.cli.serve import read_configuration
from warmroute.config import option_names
from warmroute.errors import ConfigError
from warmroute.gateway.options import ServeConfig, TokenizerChoice, tokenizer_choice, worker_spec
from warmroute.gateway.relay import RelayOptions
from warmroute.worker import WorkerSpec


def configuration(tmp_path: Path, toml: str, *flags: str) -> tuple[ServeConfig, RelayOptions, tuple[WorkerSpec, ...]]:
    import argparse

    from warmroute.cli import serve

    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    path = tmp_path / "warmroute.toml"
    path.write_text(toml)
    made = read_configuration(parser.parse_args(["--config", str(path), *flags]))
    assert made.files() == (path,)
    return made.serve, made.relay, made.specs


def test_file_and_command_line_together(tmp_path: Path) -> None:
    toml = """
        policy = "weighted"
        model = "m"
        max_body_bytes = 1000

        [[workers]]
        url = "http://h:2/"
        block_size = 64
        kv_events = "tcp://h:5557"
    """
    config, relay, specs = configuration(tmp_path, toml, "--worker", "http://h:1", "--port", "9000")
    assert (config.policy, config.port, relay.max_body_bytes) == ("weighted", 9000, 1000)
    assert specs == (
        WorkerSpec("http://h:1", model="m"),
        WorkerSpec("http://h:2", model="m", block_size=64, kv_events="tcp://h:5557"),
    )


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("polizy = 'x'", "unknown key 'polizy' in .*warmroute.toml; did you mean 'policy'?"),
        ("policy = 'randm'", r"there is no policy 'randm' .*package.module:Class\); did you mean 'random'?"),
        ("policy = 'mine/ours.py:Mine'", "is named package.module:Class, not .*; write mine.ours:Mine"),
        ("policy = 3", "key 'policy' must be of type str, not 3"),
        ("port = 99999", "port must lie between 0 and 65535, not 99999"),
        ("policy = ", "is not valid TOML"),
        ("[[worker]]\nurl = 'http://h:1'", r"write \[\[workers\]\] above each"),
        ("worker = ['http://h:1,http://h:2']", "is more than one URL; repeat --worker"),
        ("worker = ['ftp://h:1']", "write http://HOST:PORT or https://HOST:PORT"),
        ("workers = 3", "'workers' in .* must be a list of tables"),
        ("[[workers]]\nblock_size = 16", "has no url"),
        ("[[workers]]\nurl = 'h:1'", "is no worker URL; write http://HOST:PORT"),
        ("[[workers]]\nurl = 'http://h:1'\nblok_size = 16", "unknown key 'blok_size' .*; did you mean 'block_size'?"),
        ("[[workers]]\nurl = 'http://h:1'\nblock_size = 0", "'block_size' in .* must be above 0"),
        ("[[workers]]\nurl = 'http://h:1'\nblock_size = 'x'", "'block_size' in .* must be of type int"),
        ("[[workers]]\nurl = 'http://h:1'\n[[workers]]\nurl = 'http://h:1/'", "worker http://h:1 is given twice"),
        ("[[workers]]\nurl = 'http://h:123456'", "has no valid port"),
        ("[[workers]]\nurl = 'http://h:0'", "has no valid port"),
        ("[[workers]]\nurl = 'http://[::1'", "is no worker URL: Invalid IPv6 URL"),
        ("[[workers]]\nurl = 'http://a b:1'", "holds a character that no URL has"),
        ('[[workers]]\nurl = "http://h\\r\\n:1"', "holds a character that no URL has"),
        ("[[workers]]\nurl = 'http://a..b:1'", "is no worker URL"),
        ("[[workers]]\nurl = 'http://:secret@h:1'", "must be a base URL without user"),
        ("[[workers]]\nurl = 'http://h:1'\n[[workers]]\nurl = 'HTTP://H:1'", "worker http://h:1 is given twice"),
        ("[[workers]]\nurl = 'http://h:1'\nblock_size = 2147483648", "'block_size' in .* at most 2147483647"),
        ("[[workers]]\nurl = 'http://h:1'\ncapacity_blocks = 2147483648", "'capacity_blocks' in .* at most"),
        ("[[workers]]\nurl = 'http://h:1'\nkv_events = '5557'", "'kv_events' in .*; write tcp://HOST:PORT"),
        ("[[workers]]\nurl = 'http://h:1'\nkv_events = 'tcp://h:99999'", "write tcp://HOST:PORT"),
        ("[[workers]]\nurl = 'http://h:1'\nkv_replay = 'tcp://h:1'", "'kv_replay' in .* needs 'kv_events'"),
        ("block_size = -16", "block_size must lie between 1 and .*, not -16"),
        ("grace_s = -1.0", "grace_s must lie between 0 and .*, not -1"),
        ("probe_interval_s = nan", "probe_interval_s must lie between .*, not nan"),
        ("tokenizer = ['a', 'b']", "2 sources for all models; write MODEL=SOURCE for each"),
        ("tokenizer = ['m=a', 'm=b']", "must be MODEL=SOURCE, once for each model"),
        ("tokenizer = ['m=']", "must be MODEL=SOURCE"),
        ("tokenizer = 3", "key 'tokenizer' must be a list"),
        ("[tokenizers]\nm = 3", r"\[tokenizers\] in .* must have lines such as"),
        ("dialect = 'vlm'", "key 'dialect' cannot be 'vlm'; did you mean 'vllm'?"),
        ("tokenize_timeout_s = 0", "tokenize_timeout_s must lie between"),
        ("tokenizer_threads = 0", "tokenizer_threads must lie between 1 and .*, not 0"),
        ("relay_threads = -1", "threads must lie between 1 and .*, not -1"),
        ("max_body_bytes = 0", "max_body_bytes must lie between 1 and .*, not 0"),
        ("first_byte_timeout_s = inf", "first_byte_timeout_s must lie between .*, not inf"),
        ("connect_timeout_s = 1e300", "connect_timeout_s must lie between .*, not 1e"),
    ],
)
def test_mistakes(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        configuration(tmp_path, toml)


def test_a_policy_of_ones_own_is_named_in_the_file_the_environment_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = "policy = 'of_the.file:Mine'"
    assert configuration(tmp_path, toml)[0].policy == "of_the.file:Mine"
    monkeypatch.setenv("WARMROUTE_POLICY", "of_the.environment:Mine")
    assert configuration(tmp_path, toml)[0].policy == "of_the.environment:Mine"
    assert configuration(tmp_path, toml, "--policy", "of_the.flag:Mine")[0].policy == "of_the.flag:Mine"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file"):
        configuration(tmp_path, "", "--config", str(tmp_path / "other.toml"))


def test_no_option_is_declared_twice() -> None:
    names = option_names(ServeConfig, RelayOptions)
    assert len(names) == len(set(names))


def test_a_worker_must_be_an_object() -> None:
    with pytest.raises(ConfigError, match="must be a table with a url"):
        worker_spec(["http://h:1"], where="the request")


def test_tokenizers_of_a_file_and_of_the_command_line(tmp_path: Path) -> None:
    toml = """
        tokenizer = "/models/all"

        [tokenizers]
        "Qwen/Qwen3-32B" = "/models/qwen3"
    """
    config, _, _ = configuration(tmp_path, toml)
    assert tokenizer_choice(config.tokenizer) == TokenizerChoice(
        "/models/all", {"Qwen/Qwen3-32B": "/models/qwen3"}, False
    )
    config, _, _ = configuration(tmp_path, toml, "--tokenizer", "m=org/m", "--tokenizer", "n=/n")
    assert tokenizer_choice(config.tokenizer) == TokenizerChoice(None, {"m": "org/m", "n": "/n"}, True)


def test_words_and_folders_with_an_equals_sign(tmp_path: Path) -> None:
    assert tokenizer_choice(()) == tokenizer_choice(("auto",)) == TokenizerChoice(None, {}, True)
    assert tokenizer_choice(("engine",)) == TokenizerChoice(None, {}, False)
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert tokenizer_choice((str(odd),)) == TokenizerChoice(str(odd), {}, False)
