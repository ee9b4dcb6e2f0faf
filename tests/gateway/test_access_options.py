"""Where the router's own pages are served."""

import argparse
from pathlib import Path

import pytest

from warmroute.cli import serve
from warmroute.cli.serve import read_configuration
from warmroute.errors import ConfigError
from warmroute.gateway.access_options import AccessOptions, admin_port


@pytest.mark.parametrize(
    ("told", "traffic_port", "port"),
    [
        (None, 8080, 8081),
        (None, 0, 0),
        (None, 65535, 0),
        (9000, 8080, 9000),
        (0, 8080, 0),
        (0, 0, 0),
        ("same", 8080, None),
        ("same", 0, None),
        (8080, 8080, None),
    ],
)
def test_the_port_of_the_routers_own_pages(told: int | str | None, traffic_port: int, port: int | None) -> None:
    assert admin_port(AccessOptions(admin_port=told), traffic_port) == port


def test_a_port_beyond_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="admin_port"):
        AccessOptions(admin_port=65536)


@pytest.mark.parametrize(
    ("line", "flags", "told"),
    [
        ("", [], None),
        ("admin_port = 9000", [], 9000),
        ("admin_port = 'same'", [], "same"),
        ("admin_port = 9000", ["--admin-port", "same"], "same"),
        ("admin_port = 'same'", ["--admin-port", "9"], 9),
    ],
)
def test_a_number_or_the_word(tmp_path: Path, line: str, flags: list[str], told: int | str | None) -> None:
    file = tmp_path / "warmroute.toml"
    file.write_text(line)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    assert read_configuration(parser.parse_args(["--config", str(file), *flags])).access.admin_port == told


def test_another_word_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "warmroute.toml"
    file.write_text("admin_port = 'other'")
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    with pytest.raises(ConfigError, match="admin_port"):
        read_configuration(parser.parse_args(["--config", str(file)]))
