"""The branches of a state directory that lie in another store than the one in use: each kind of rung has its own."""

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from resolvent.adapters.workspace.rungs import Rung, in_memory
from resolvent.errors import StoreBusy

# Copies lie in one store, whatever walls are around them.
COPIES = "plain, copy or landlock"


def elsewhere(state: Path, *, rung: Rung) -> dict[str, tuple[str, ...]]:
    """The names of the branches in every other store, by the rung that uses it; stores that hold none are left out."""
    found = {
        COPIES: () if not rung.overlay else _copies(state / "branches"),
        "overlay": () if rung.name == "overlay" else _layered(state / "sandbox"),
        "memory": () if rung.name == "memory" else _layered(in_memory(state)),
    }
    return {name: ids for name, ids in found.items() if ids}


def _copies(place: Path) -> tuple[str, ...]:
    ids = []
    for about in place.glob("*/branch.json"):
        # One that goes while we look was never there.
        with suppress(FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            ids.append(str(json.loads(about.read_bytes())["id"]))
    return tuple(sorted(ids))


def _layered(sandbox: Path) -> tuple[str, ...]:
    place = sandbox / "branches.db"
    if not place.is_file():
        return ()
    try:
        with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True, timeout=5)) as store:
            return tuple(id for (id,) in store.execute("SELECT id FROM branches ORDER BY number"))
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error):
            return ()
        raise StoreBusy(f"the store {place} cannot be read: {error}", hint=f"ls -l {place}") from error
