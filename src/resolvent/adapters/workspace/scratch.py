"""Where things are made before they are there, and taken apart after they are gone."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resolvent.adapters.workspace.files import lift, opened, remove_tree


class Scratch:
    """A directory of unfinished things, named after the process that makes them: what the dead left is removed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._swept = False

    @contextmanager
    def __call__(self) -> Iterator[Path]:
        """A fresh directory; what is still in it at the end is removed."""
        if not self._swept:
            self._sweep()
        fresh = self._directory / f"{os.getpid()}-{secrets.token_hex(8)}"
        fresh.mkdir(parents=True, mode=0o700)
        try:
            yield fresh
        finally:
            remove_tree(fresh)

    def discard(self, path: Path) -> None:
        """Remove a directory so that it is there wholly or not at all. Not there: nothing to do."""
        with self() as fresh, suppress(FileNotFoundError), opened(path.parent) as there, opened(fresh) as here:
            lift(path.name, there, "discarded", here)

    def _sweep(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in list(self._directory.iterdir()):
            maker = left.name.partition("-")[0]
            if not (maker.isdecimal() and _alive(int(maker))):
                # What belongs to another user stays: it is in nobody's way.
                with suppress(PermissionError):
                    remove_tree(left)
        self._swept = True


def settle(made: Path, place: Path) -> None:
    """Put what was made where it belongs; what someone else put there in the meantime stays."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        made.rename(place)
    except OSError:
        if not place.exists():
            raise


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
