"""What the last export of each branch left out, noted in a file per branch: it is asked for without waiting."""

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from resolvent.adapters.workspace.names import directory_name
from resolvent.adapters.workspace.scratch import Scratch


class Leftovers:
    """The notes of one store; all of it blocks for the disk, shortly."""

    def __init__(self, directory: Path, *, scratch: Scratch) -> None:
        self._directory = directory
        self._scratch = scratch

    def note(self, branch: str, skipped: Sequence[str]) -> None:
        """Remember what was left out of the branch's export."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        with self._scratch() as scratch:
            (scratch / "skipped").write_text(json.dumps(skipped))
            (scratch / "skipped").replace(self._directory / directory_name(branch))

    def of(self, branch: str) -> tuple[str, ...]:
        """What was left out; nothing when it was never exported."""
        try:
            return tuple(json.loads((self._directory / directory_name(branch)).read_bytes()))
        except FileNotFoundError:
            return ()

    def forget(self, branch: str) -> None:
        """The branch is gone."""
        (self._directory / directory_name(branch)).unlink(missing_ok=True)

    def names(self) -> tuple[str, ...]:
        """The notes there are."""
        return tuple(os.listdir(self._directory)) if self._directory.is_dir() else ()

    def sweep(self, names: Collection[str], *, branches: Collection[str]) -> None:
        """Remove those of these notes that belong to none of the branches. Look for the branches last."""
        kept = {directory_name(branch) for branch in branches}
        for name in names:
            if name not in kept:
                (self._directory / name).unlink(missing_ok=True)
