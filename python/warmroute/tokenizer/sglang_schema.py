"""Which definitions of tools reach the chat template as the client wrote them.

SGLang renames types of other schema languages (`varchar`, `int`) in the parameters of a tool before it renders them.
Source: SGLang 0.5.23, `function_call/utils.py` (`normalize_json_schema_types`).
"""

from typing import Any

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# What stands in these is data of the client's, not a schema.
_DATA = frozenset({"enum", "const", "default", "examples", "required"})


def is_standard(schema: Any) -> bool:
    """Whether every type in `schema` is one of JSON Schema's."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, dict):
            if not _has_standard_type(each.get("type")):
                return False
            waiting.extend(value for name, value in each.items() if name not in _DATA)
    return True


def _has_standard_type(kind: Any) -> bool:
    names = kind if isinstance(kind, list) else [kind]
    return all(name in _TYPES for name in names if isinstance(name, str))
