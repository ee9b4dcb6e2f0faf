"""One declaration gives flag, variable and key; wrong ones are named with the nearest right one."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from warmroute.config import add_arguments, from_namespace, option, option_names, reject_unknown_keys
from warmroute.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Kitchen:
    ovens: int = option(2, "how many ovens")
    heat: float = option(1.5, "how hot")
    name: str | None = option(None, "what it is called")
    style: str = option("plain", "how to cook", choices=("plain", "fancy"))
    dish: tuple[str, ...] = option((), "a dish; may be repeated")
    open: bool = option(True, "whether guests may come")
    secret: str = option("x", "told through the environment", env="KITCHEN_SECRET", flag="--the-secret")


def build(*flags: str, env: Mapping[str, str] | None = None, file: Mapping[str, Any] | None = None) -> Kitchen:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Kitchen)
    return from_namespace(Kitchen, parser.parse_args(flags), environ=env, file_values=file)


def test_defaults() -> None:
    assert build() == Kitchen()


def test_command_line_wins_over_environment_over_file() -> None:
    file = {"ovens": 3, "heat": 4, "name": "file"}
    env = {"WARMROUTE_HEAT": "5.5", "WARMROUTE_NAME": "env", "KITCHEN_SECRET": "s"}
    kitchen = build("--name", "flag", env=env, file=file)
    assert (kitchen.ovens, kitchen.heat, kitchen.name, kitchen.secret) == (3, 5.5, "flag", "s")


def test_repeated_flags_lists_and_switches() -> None:
    assert build("--dish", "soup", "--dish", "pie").dish == ("soup", "pie")
    assert build(file={"dish": ["soup"]}).dish == ("soup",)
    assert build(env={"WARMROUTE_DISH": "soup, pie"}).dish == ("soup", "pie")
    assert build("--no-open").open is False
    assert build(env={"WARMROUTE_OPEN": "off"}).open is False
    assert build("--the-secret", "y").secret == "y"


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"ovens": "3"}, "key 'ovens' must be of type int, not '3'"),
        ({"ovens": True}, "key 'ovens' must be of type int, not True"),
        ({"dish": "soup"}, "key 'dish' must be a list"),
        ({"style": "fancyy"}, "key 'style' cannot be 'fancyy'; did you mean 'fancy'?"),
    ],
)
def test_wrong_values_of_a_file(file: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(file=file)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"WARMROUTE_OVENS": "many"}, "WARMROUTE_OVENS must be of type int, not 'many'"),
        ({"WARMROUTE_OPEN": "perhaps"}, "WARMROUTE_OPEN must be true or false, not 'perhaps'"),
        ({"WARMROUTE_STYLE": "rustic"}, "WARMROUTE_STYLE cannot be 'rustic'; known: fancy, plain"),
    ],
)
def test_wrong_values_of_the_environment(env: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(env=env)
    assert str(caught.value) == message


def test_what_kubernetes_sets_for_a_service_of_that_name_is_no_port() -> None:
    assert build(env={"WARMROUTE_OVENS": "tcp://10.96.0.7:8080"}).ovens == 2


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'oven' in kitchen.toml; did you mean 'ovens'\?"):
        reject_unknown_keys({"oven": 1}, option_names(Kitchen), where="kitchen.toml")


def test_help_tells_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Kitchen)
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    text = capsys.readouterr().out
    assert "how many ovens (default: 2)" in " ".join(text.split())
