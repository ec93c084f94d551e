"""What every answer is made from: the hub, what it holds now, who asks, and where it is served."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from resolvent.forge_server.holdings import Account, Holdings, Item
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.shapes.sight import RANKS, Sight

T = TypeVar("T")

# An object of the schema: the name of each field, and its value or what makes it of the field's arguments.
Shape = dict[str, Any]


@dataclass
class Scene:
    """One request; what it sees is renewed after every write."""

    hub: Hub
    by: Account
    sight: Sight
    # The scopes of the token; None when nobody looked.
    scopes: tuple[str, ...] | None = None
    # What git was asked for this request already.
    _asked: dict[tuple[str, int], asyncio.Future[Any]] = field(default_factory=dict)

    @property
    def holdings(self) -> Holdings:
        return self.sight.holdings

    @property
    def path(self) -> str:
        """Of the repository, on its site."""
        return f"/{self.sight.full_name}"

    async def renew(self) -> None:
        """Look again, after a write."""
        self.sight = Sight(await self.hub.holdings(), self.sight.base, self.by)
        self._asked.clear()

    def once(self, what: str, item: Item, ask: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        """Ask git this about a pull request, once however many fields want to know it."""
        key = (what, item.number)
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(ask())
        return self._asked[key]

    def may(self, least: str, login: str = "") -> bool:
        """Whether who asks, or that login, has at least this permission."""
        held = self.holdings.accounts.get(login or self.by.login)
        return held is not None and RANKS.index(held.permission) >= RANKS.index(least)

    def item(self, number: int, kind: str = "") -> Item | None:
        """The issue or pull request of that number, if it is of that kind."""
        found = self.holdings.items.get(number)
        return found if found and kind in ("", found.kind) else None


def nothing(**_: Any) -> tuple[()]:
    """A listing of what this forge does not have."""
    return ()
