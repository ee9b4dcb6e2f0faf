"""`warmroute engine`: which engine its flags ask for."""

import argparse

import pytest

from warmroute.cli import engine
from warmroute.engine_model import EngineOptions
from warmroute.engine_model.presets import PRESETS, QWEN3_32B_A100_TP2


def asked_for(*words: str) -> EngineOptions:
    parser = argparse.ArgumentParser()
    engine.add_arguments(parser)
    return engine.engine_options(parser.parse_args(words))


def test_without_flags_it_is_the_default() -> None:
    assert asked_for() == EngineOptions()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_its_name_stands_for(name: str) -> None:
    assert asked_for("--preset", name) == PRESETS[name].options


def test_a_flag_weighs_more_than_the_preset() -> None:
    asked = asked_for("--block-size", "16", "--preset", "qwen3-32b-a100-tp2", "--host-blocks", "100")
    assert (asked.block_size, asked.host_blocks) == (16, 100)
    assert asked.step_base_s == QWEN3_32B_A100_TP2.options.step_base_s


def test_help_teaches_the_tiers_and_the_presets() -> None:
    parser = argparse.ArgumentParser()
    engine.add_arguments(parser)
    told = parser.format_help()
    for word in ("--host-blocks", "--disk-load-tokens-per-s", "--mixed-step-factor", *PRESETS):
        assert word in told
