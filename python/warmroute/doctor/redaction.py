"""Texts as far as a report may show them."""


def shown(text: str, show_text: bool, characters: int) -> str:
    """A text, or its first characters and how many more there are."""
    if show_text or len(text) <= characters:
        return text
    return f"{text[:characters]}...(+{len(text) - characters})"
