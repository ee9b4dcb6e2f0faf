"""The languages of the corpus: words and sentences with gaps, one file each in `languages/`, all written for it.

A sentence's gaps are filled with things, products, places, people and numbers, so that two texts of one language have
words in common, and hardly a sentence.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

_FOLDER = Path(__file__).parent / "languages"
LANGUAGES = ("english", "german", "french", "spanish", "russian", "chinese", "japanese", "arabic", "hindi")


@dataclass(frozen=True, slots=True)
class Language:
    """sentences: lists of them by name, such as `facts`. words: single terms by name, such as `now`.

    days, moments: how a day, and a day with the time, are written. digits: the script's own, where it has some.
    """

    tag: str
    sentences: Mapping[str, Sequence[str]]
    words: Mapping[str, str]
    months: Sequence[str]
    weekdays: Sequence[str]
    days: Sequence[str]
    moments: Sequence[str]
    digits: str | None = None

    def written(self, form: str, at_s: float, own_digits: bool = False) -> str:
        """A time, in seconds since 1970, in one of the language's forms."""
        at = datetime.fromtimestamp(at_s, UTC)
        text = form.format(
            weekday=self.weekdays[at.weekday()],
            day=at.day,
            day2=f"{at.day:02}",
            month=self.months[at.month - 1],
            month2=f"{at.month:02}",
            year=at.year,
            hour=at.hour,
            hour2=f"{at.hour:02}",
            hour12=(at.hour - 1) % 12 + 1,
            am="AM" if at.hour < 12 else "PM",
            minute2=f"{at.minute:02}",
            second2=f"{at.second:02}",
        )
        return text.translate(str.maketrans("0123456789", self.digits)) if own_digits and self.digits else text


@cache
def language(name: str) -> Language:
    """The language of this name, read once."""
    told: dict[str, Any] = tomllib.loads((_FOLDER / f"{name}.toml").read_text())
    own = {field: told.pop(field) for field in ("tag", "words", "months", "weekdays", "days", "moments")}
    digits = told.pop("digits", None)
    return Language(**own, digits=digits, sentences=MappingProxyType(told))
