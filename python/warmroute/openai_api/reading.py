"""What a dialect's reader hands back: the contents, and whether they are all the engine will see."""

from dataclasses import dataclass

from warmroute.openai_api.prompt import Content


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a body. `exact` as in `Prompt`."""

    contents: tuple[Content, ...]
    exact: bool = True


# The engine will see something that cannot be told from the body: a state it keeps, or embeddings.
UNTOLD = Reading((), exact=False)
