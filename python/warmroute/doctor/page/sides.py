"""Two texts beside each other, each with what it has alone marked."""

from dataclasses import dataclass

from warmroute.doctor.units import common_prefix


@dataclass(frozen=True, slots=True)
class Side:
    """One of two texts: what both begin with, what it has alone, what both end with. White space is made visible."""

    begin: str
    own: str
    end: str


def side(text: str, other: str) -> Side:
    """The text beside another one."""
    begin = common_prefix(text, other)
    most = min(len(text), len(other)) - begin
    end = common_prefix(text[::-1][:most], other[::-1][:most])
    own = text[begin : len(text) - end]
    return Side(text[:begin], _visible(own), text[len(text) - end :])


def _visible(text: str) -> str:
    if text.strip():
        return text
    return text.replace(" ", "␣").replace("\t", "⇥").replace("\r", "␍").replace("\n", "␊\n")
