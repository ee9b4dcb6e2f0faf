"""`namespace(...)`, the only object of a template that it can change."""

from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace


class TemplateNamespace(Namespace):
    """A namespace of which the environment reads `values`, and templates only what they have put there.

    Source: transformers 5.25, `_compile_jinja_template`, which refuses names that begin with an underscore: jinja and
    markupsafe ask objects for `__html__` and call what they find.
    """

    values: dict[str, Any]

    def __init__(self, values: dict[str, Any]) -> None:
        for name in values:
            _check(name)
        self.values = values

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        self.values[name] = value

    def __repr__(self) -> str:
        return f"<Namespace {self.values!r}>"


def _check(name: str) -> None:
    if not isinstance(name, str) or name.startswith("_"):
        raise SecurityError("names that begin with an underscore cannot be stored in a namespace")
