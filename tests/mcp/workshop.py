"""Explorations inside the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from resolvent.domain.exploration import Exploration
from resolvent.exploring import Explorer
from resolvent.wiring import Home

from .place import Place


@asynccontextmanager
async def exploring(place: Place, *overrides: str, unsafe: bool = False) -> AsyncIterator[Explorer]:
    """The use cases over a place; nobody works on anything yet."""
    home = Home.of(place.project, environ=place.environ, overrides=overrides)
    explorer = await Explorer.open(home, unsafe=unsafe)
    try:
        yield explorer
    finally:
        await explorer.close()
        await home.close()


@asynccontextmanager
async def working(explorer: Explorer) -> AsyncIterator[None]:
    """Somebody works."""
    work = asyncio.create_task(explorer.work())
    try:
        yield
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def ended(explorer: Explorer, id: str) -> Exploration:
    """The exploration once nothing happens in it any more."""
    seen = await explorer._table.changed(since=-1)
    while not (row := await explorer.branch(id)).ended:
        seen = await explorer._table.changed(since=seen)
    return row
