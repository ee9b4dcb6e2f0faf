"""Whether a chat template takes the content of a message as one text or as a list of parts.

The engine decides it from the template, and hands over the one or the other. Sources: vLLM 0.32, `renderers/hf.py`
(`_detect_content_format`): a loop over `message.content`, over a variable named `content`, or over a parameter that a
macro gets it through means parts. SGLang 0.5.23, `parser/jinja_template_utils.py`
(`detect_jinja_template_content_format`): a loop over the content of `message`, `msg` or `m`.
"""

import re
from collections.abc import Iterator

import jinja2
from jinja2 import nodes
from jinja2.ext import loopcontrols

_GENERATION_TAG = re.compile(r"{%[-+]?\s*(end)?generation\s*[-+]?%}")


class _NotDetected(Exception):
    """The engine's own search fails on this template, and it goes on with texts."""


def loops_over_content(source: str) -> bool:
    """SGLang's reading: true if the template has a loop over the content of a message by one of its usual names."""
    try:
        template = jinja2.Environment(extensions=[loopcontrols]).parse(_GENERATION_TAG.sub("", source))
    except (jinja2.TemplateError, RecursionError):
        return False
    return any(_is_content(loop.iter, {"message", "msg", "m"}) for loop in template.find_all(nodes.For))


def iterates_over_content(template: nodes.Template) -> bool:
    """vLLM's reading: true if the template walks over the parts of a message's content."""
    try:
        return _iterates_over_content(template)
    except _NotDetected:
        return False


def _iterates_over_content(template: nodes.Template) -> bool:
    messages = _loop_variables(template, _aliases(template, "messages"))
    in_macros = {
        id(loop): parameters
        for macro in template.find_all(nodes.Macro)
        for parameters in [_content_parameters(template, macro, messages)]
        for loop in macro.find_all(nodes.For)
    }
    for loop in template.find_all(nodes.For):
        names = in_macros.get(id(loop), {"content"})
        if _is_content(loop.iter, messages) or (isinstance(loop.iter, nodes.Name) and loop.iter.name in names):
            return True
    return False


def _aliases(template: nodes.Template, name: str) -> set[str]:
    """`name` and every variable that is set from it or from a part of it."""
    known: set[str] = set()
    waiting = [name]
    while waiting:
        alias = waiting.pop()
        known.add(alias)
        waiting.extend(target for target in _assigned_from(template, alias) if target not in known)
    return known


def _assigned_from(template: nodes.Template, name: str) -> Iterator[str]:
    for assignment in template.find_all(nodes.Assign):
        if _is_name(_without_filters(assignment.node), name):
            yield _name(assignment.target)


def _name(target: nodes.Node) -> str:
    if not isinstance(target, nodes.Name):
        raise _NotDetected
    return target.name


def _loop_variables(template: nodes.Template, names: set[str]) -> set[str]:
    """The variables of the loops over any of `names`: each is one message."""
    return {
        _name(loop.target)
        for loop in template.find_all(nodes.For)
        if any(_is_name(_without_filters(loop.iter), name) for name in names)
    }


def _content_parameters(template: nodes.Template, macro: nodes.Macro, messages: set[str]) -> set[str]:
    """The parameters of a macro through which some call hands it a message's content."""
    names = [parameter.name for parameter in macro.args]
    found: set[str] = set()
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == macro.name:
            given = dict(zip(names, call.args, strict=False))
            given |= {keyword.key: keyword.value for keyword in call.kwargs if isinstance(keyword, nodes.Keyword)}
            found |= {name for name in names if name in given and _is_content(given[name], messages)}
    return found


def _is_content(node: nodes.Node, messages: set[str]) -> bool:
    """`message.content` or `message['content']`, filtered or sliced or not."""
    node = _without_filters(node)
    if isinstance(node, nodes.Getattr):
        key = node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key = node.arg.value
    else:
        return False
    return key == "content" and any(_is_name(node.node, message) for message in messages)


def _without_filters(node: nodes.Node) -> nodes.Node:
    while True:
        sliced = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        if not (sliced or isinstance(node, nodes.Filter | nodes.Test)) or node.node is None:  # type: ignore[attr-defined]
            return node
        node = node.node  # type: ignore[attr-defined]


def _is_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
