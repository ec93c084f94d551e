"""How lists of issues, pull requests and comments are filtered and ordered."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.holdings import Item
from resolvent.forge_server.rest.asking import Asking

T = TypeVar("T", bound="Dated")


class Dated(Protocol):
    """Something that was made and changed at some time."""

    @property
    def created_at(self) -> float: ...

    @property
    def updated_at(self) -> float: ...


def since_of(asking: Asking) -> float:
    """The instant of `since`, from which on things are listed; the beginning of time when there is none."""
    said = asking.query("since")
    if not said:
        return 0.0
    # A plus that nobody escaped has become a space.
    text = said.replace(" ", "+")
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise Refusal(422, f"Invalid request.\n\n{said[:80]} is not a valid time for since.") from error


def changed_since(rows: Iterable[T], instant: float) -> list[T]:
    """Those that changed at that instant or later; times are whole seconds here."""
    return [row for row in rows if int(row.updated_at) >= instant]


_KEYS: dict[str, Callable[[Dated], float]] = {
    "created": lambda row: row.created_at,
    "updated": lambda row: row.updated_at,
    "comments": lambda row: len(getattr(row, "remarks", ())),
    "popularity": lambda row: len(getattr(row, "remarks", ())),
    "long-running": lambda row: -row.created_at,
}


def ordered(asking: Asking, rows: Iterable[T], *, otherwise: str = "desc") -> list[T]:
    """The rows by `sort`, newest first unless `direction` or the list's own order says otherwise."""
    key = _KEYS.get(asking.query("sort"), _KEYS["created"])
    descending = asking.query("direction", otherwise) != "asc"
    return sorted(rows, key=lambda row: (key(row), _nth(row)), reverse=descending)


def _nth(row: object) -> int:
    return int(getattr(row, "id", 0) or getattr(row, "number", 0))


def in_state(items: Iterable[Item], state: str) -> list[Item]:
    """The open ones, the closed ones (merged ones are), or all."""
    return [item for item in items if state == "all" or (item.state == "open") == (state != "closed")]


def with_labels(items: Iterable[Item], labels: Sequence[str]) -> list[Item]:
    """Those that have all these labels, however they are capitalised."""
    wanted = {label.strip().casefold() for label in labels if label.strip()}
    return [item for item in items if wanted <= {name.casefold() for name in item.labels}]


def assigned(items: Iterable[Item], assignee: str) -> list[Item]:
    """Those of somebody; of nobody for `none`, of anybody for `*`."""
    if assignee == "none":
        return [item for item in items if not item.assignees]
    if assignee == "*":
        return [item for item in items if item.assignees]
    return [item for item in items if assignee.casefold() in {login.casefold() for login in item.assignees}]
