"""Reviewers of the author's own family, who may overlook what the author overlooked."""

from collections.abc import Sequence

from resolvent.domain.model import Value


class Player(Value):
    """Who may be asked for a role, and whose place it takes there."""

    name: str
    family: str
    instead_of: str = ""

    def __str__(self) -> str:
        return f"{self.name} (instead of {self.instead_of})" if self.instead_of else self.name


def akin(writers: Sequence[Player], readers: Sequence[Player]) -> tuple[str, ...]:
    """A sentence about each reader who may review one of its own family; nobody is of the family without a name."""
    pairs = [(writer, reader) for writer in writers for reader in readers if reader.family == writer.family != ""]
    return tuple(
        f"{reader} reviews what {writer} writes, and both are of the family {writer.family}" for writer, reader in pairs
    )
