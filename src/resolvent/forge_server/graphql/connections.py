"""Relay connections: a page of a listing, with cursors that survive what is added in between."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from resolvent.forge_server.graphql.refusals import refused

LIMIT = 100
BOUNDS = ("first", "after", "last", "before")


@dataclass(frozen=True)
class Connection:
    """A listing of which a page is asked for; counting it needs no bounds."""

    name: str
    listed: Sequence[Any]
    first: int | None = None
    after: str | None = None
    last: int | None = None
    before: str | None = None

    def shape(self) -> dict[str, Any]:
        """As GraphQL has it."""
        total = len(self.listed)
        counts = {"totalCount": total, "issueCount": total, "userCount": 0, "repositoryCount": 0}
        return counts | {"nodes": self._nodes, "edges": self._edges, "pageInfo": self._page}

    def _nodes(self) -> list[Any]:
        start, end = self._span
        return list(self.listed[start:end])

    def _edges(self) -> list[dict[str, Any]]:
        start, end = self._span
        return [{"node": self.listed[place], "cursor": self._cursor(place)} for place in range(start, end)]

    def _page(self) -> dict[str, Any]:
        start, end = self._span
        return {
            "hasNextPage": end < len(self.listed),
            "hasPreviousPage": start > 0,
            "startCursor": self._cursor(start) if start < end else None,
            "endCursor": self._cursor(end - 1) if start < end else None,
        }

    @cached_property
    def _span(self) -> tuple[int, int]:
        self._check_bounds()
        start = self._place(self.after) + 1 if self.after else 0
        end = max(start, self._place(self.before) if self.before else len(self.listed))
        if self.first is not None:
            end = min(end, start + self.first)
        if self.last is not None:
            start = max(start, end - self.last)
        return start, min(end, len(self.listed))

    def _check_bounds(self) -> None:
        if self.first is None and self.last is None:
            words = f"You must provide a `first` or `last` value to properly paginate the `{self.name}` connection."
            raise refused("MISSING_PAGINATION_BOUNDARIES", words)
        for bound, number in (("first", self.first), ("last", self.last)):
            if number is not None and number > LIMIT:
                asked = f"Requesting {number} records on the `{self.name}` connection"
                raise refused("EXCESSIVE_PAGINATION", f"{asked} exceeds the `{bound}` limit of {LIMIT} records.")
            if number is not None and number < 0:
                words = f"`{bound}` on the `{self.name}` connection cannot be less than zero."
                raise refused("INVALID_PAGINATION_BOUNDARIES", words)

    def _cursor(self, place: int) -> str:
        return b64encode(f"cursor:{place}:{_key(self.listed[place])}".encode()).decode("ascii")

    def _place(self, cursor: str) -> int:
        """Where the thing stands now that the cursor was made for; where it stood when it is gone."""
        try:
            word, stood, key = b64decode(cursor, validate=True).decode("utf-8").split(":", 2)
            place = int(stood)
        except ValueError:
            word, place, key = "", 0, ""
        if word != "cursor" or not 0 <= place < 1 << 53:
            raise refused("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")
        if place < len(self.listed) and _key(self.listed[place]) == key:
            return place
        moved = (at for at, one in enumerate(self.listed) if key and _key(one) == key)
        return next(moved, min(place, len(self.listed)) - 1)


def _key(one: Any) -> str:
    return str(one.get("id", ""))


@dataclass(frozen=True)
class Listing:
    """A listing whose connection has fields of its own."""

    listed: Sequence[Any]
    fields: dict[str, Any]
