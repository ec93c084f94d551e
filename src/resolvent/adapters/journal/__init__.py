"""Tables and queries of our own facts, in SQLite or Postgres. Only the driver that a URL asks for is imported."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resolvent.adapters.journal.journal import StoredJournal


async def connect(url: str, *, now: Callable[[], float] = time.time) -> "StoredJournal":
    """Open the journal at a store's URL, made or migrated if need be; ConfigError when it is newer than we are."""
    from resolvent.adapters.journal.journal import StoredJournal
    from resolvent.adapters.journal.store import Store

    store = await Store.open(url)
    try:
        return await StoredJournal.over(store, now=now)
    except BaseException:
        await store.close()
        raise
