"""The OpenAPI 3.1 description of the router's own pages, made of their declarations."""

from collections.abc import Iterator
from typing import Any

import msgspec

from warmroute._native import __version__
from warmroute.gateway.own_page import Content, Description, OwnPage, Pages, Parameter
from warmroute.gateway.page_types import ErrorPage

_REFERENCE = "#/components/schemas/{name}"
_ANY_ERROR = Content("an error that any page may give, such as 405 for a method that it does not take", ErrorPage)


def openapi(pages: Pages) -> dict[str, Any]:
    """The description of `pages` as a JSON object."""
    kinds = list({id(kind): kind for page in pages.values() for kind in _kinds(page.description)}.values())
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    schema_of = dict(zip(map(id, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), page in sorted(pages.items()):
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, page, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "warmroute", "version": __version__, "description": "The router's own pages."},
        "paths": paths,
        "components": {"schemas": components},
    }


def _kinds(description: Description) -> Iterator[Any]:
    bodies = [*description.answers.values(), _ANY_ERROR]
    if description.body is not None:
        bodies.append(description.body)
    yield from (content.kind for content in bodies if content.kind is not None)


def _operation(method: str, path: str, page: OwnPage, schema_of: dict[int, Any]) -> dict[str, Any]:
    told = page.description
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()} {path}",
        "summary": told.summary,
        "responses": {str(status): _body(content, schema_of) for status, content in told.answers.items()}
        | {"default": _body(_ANY_ERROR, schema_of)},
    }
    if told.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in told.parameters]
    if told.body is not None:
        # Where the query can say the same, the body may be left out.
        operation["requestBody"] = _body(told.body, schema_of) | {"required": not told.parameters}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }


def _body(content: Content, schema_of: dict[int, Any]) -> dict[str, Any]:
    schema = {} if content.kind is None else schema_of[id(content.kind)]
    return {"description": content.text, "content": {content.media_type: {"schema": schema}}}
