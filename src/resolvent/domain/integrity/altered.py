"""One file before and after a change, and what a rule says of it."""

from resolvent.domain.model import Value

MAX_CHARACTERS = 1 << 20
MAX_LINES = 100_000


class Altered(Value):
    """One file before and after; None: it was not, or is not there."""

    path: str
    old: str | None
    new: str | None


class Hit(Value):
    """One place where a change makes the project's tests or checks say less."""

    rule: str
    path: str
    # In the new version of the file; in the old one when the file is gone.
    line: int
    text: str


def readable(text: str) -> bool:
    """Whether the rules look into a file: it is text, and of a size that a person could have written."""
    return len(text) <= MAX_CHARACTERS and text.count("\n") < MAX_LINES and "\0" not in text


def shown(text: str, *, width: int = 90) -> str:
    """A piece of source on one line, printable, in code marks."""
    line = " ".join(text[: width * 8].split())
    plain = "".join(one if one.isprintable() else "?" for one in line).replace("`", "'")
    return f"`{plain[: width - 1]}…`" if len(plain) > width else f"`{plain}`"
