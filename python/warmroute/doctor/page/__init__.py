"""The doctor's report as one HTML file that asks for nothing, so it can be mailed, kept and opened anywhere."""

from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

from warmroute.doctor.page.sides import Side, side
from warmroute.doctor.report import ToldReport

__all__ = ["Side", "page"]


def page(report: ToldReport, name: str) -> str:
    """The page of a report on what `name` says; equal reports give equal pages."""
    return _template().render(report=report, name=name, side=side, style=_asset("page.css"))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": lambda share: f"{share:.0%}", "whole": lambda count: f"{count:,}"}
    return environment.from_string(files(__package__).joinpath("assets", "page.html").read_text("utf-8"))


def _asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup(files(__package__).joinpath("assets", name).read_text("utf-8").strip())
