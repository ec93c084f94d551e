"""A glance at the runs of a repository: one query, none of the imports that executing them takes."""

import re
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from resolvent.adapters.journal.portable import restored
from resolvent.errors import StoreBusy
from resolvent.places import configuration_files, state_directory, store_file

COLUMNS = (
    "run", "playbook", "subject", "title", "state", "outcome", "reason", "forked_from", "created_at", "updated_at"
)  # fmt: skip
# What this module knows how to read; a test compares it with the journal's own.
SCHEMA = 5
_RUNS = f"SELECT id, {', '.join(COLUMNS[1:])} FROM runs ORDER BY created_at DESC, id DESC LIMIT ?"
_SCHEMA = "SELECT number FROM meta WHERE name = 'schema of journal'"
# A line that could name another store; commented ones cannot.
_NAMES_A_STORE = re.compile(rb"^[ \t]*[^#\s][^\n]*url|^[ \t]*url", re.M)
_MAX_BYTES = 64 << 10
Row = dict[str, Any]


def runs(repository: Path, *, environ: Mapping[str, str], limit: int) -> list[Row] | None:
    """The newest runs of a store that lies where stores lie; None when only the whole application can tell."""
    if any(_may_name_a_store(place) for place in configuration_files(repository, environ=environ)):
        return None
    place = store_file(state_directory(repository, environ=environ))
    if not place.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True, timeout=5)) as store:
            # Another schema than ours is migrated, or refused, by the application.
            if store.execute(_SCHEMA).fetchone() != (SCHEMA,):
                return None
            rows = store.execute(_RUNS, (limit,))
            return [dict(zip(COLUMNS, map(restored, row), strict=True)) for row in rows]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise StoreBusy(f"the store {place} cannot be read: {error}", hint=f"ls -l {place}") from error
    except sqlite3.DatabaseError:
        return None


def _may_name_a_store(place: Path) -> bool:
    try:
        found = place.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return True
        return bool(_NAMES_A_STORE.search(place.read_bytes()))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
