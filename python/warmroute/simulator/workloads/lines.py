"""Reading traces line by line; an error names the file, the line and what is wrong with it."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from warmroute.errors import ConfigError

_Record = TypeVar("_Record")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line that is not blank; what ends in .gz is unpacked.

    ConfigError where the file cannot be read, or is not text.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.isspace():
                    yield number, line
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def read_records(path: Path, kind: type[_Record]) -> list[tuple[int, _Record]]:
    """Every line of a JSONL file with its number. ConfigError where a line is no `kind`, or there is none."""
    decoder, records = msgspec.json.Decoder(kind), list[tuple[int, _Record]]()
    for number, line in read_lines(path):
        try:
            records.append((number, decoder.decode(line)))
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
    if not records:
        raise ConfigError(f"{path} has no requests: it is empty")
    return records
