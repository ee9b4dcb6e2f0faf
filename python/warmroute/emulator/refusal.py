"""Errors as vLLM's OpenAI server words them: `{"error": {"message", "type", "param", "code"}}`."""

from http import HTTPStatus

import msgspec
from aiohttp import web

_TYPES = {
    HTTPStatus.BAD_REQUEST: "BadRequestError",
    HTTPStatus.NOT_FOUND: "NotFoundError",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowedError",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestTooLargeError",
}


def refused(message: str, *, param: str | None = None) -> web.HTTPException:
    """A 400 to raise: the body cannot be served; `param` names the field."""
    body = error_body(HTTPStatus.BAD_REQUEST, message, param)
    return web.HTTPBadRequest(text=body.decode(), content_type="application/json")


def unknown_model(model: str) -> web.HTTPException:
    """A 404 to raise: this engine does not serve `model`."""
    body = error_body(HTTPStatus.NOT_FOUND, f"The model `{model}` does not exist.", "model")
    return web.HTTPNotFound(text=body.decode(), content_type="application/json")


def error_body(status: int, message: str, param: str | None = None) -> bytes:
    """The JSON body of an error response."""
    kind = _TYPES.get(HTTPStatus(status), "InternalServerError")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": status}})


def shaped(error: web.HTTPException) -> web.HTTPException | web.Response:
    """`error` with a body in the API's shape; one that has it already stays as it is."""
    if error.status < HTTPStatus.BAD_REQUEST or error.content_type == "application/json":
        return error
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
    body = error_body(error.status, error.reason)
    return web.Response(status=error.status, body=body, content_type="application/json", headers=headers)
