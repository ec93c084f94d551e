"""Which start of the machine this is: what was not on the disk when it ended may be torn in the next one."""

from pathlib import Path
from shlex import quote

from resolvent.adapters.workspace.lasting import flush_names, write_whole
from resolvent.errors import JobLost

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> str:
    """A name that no other boot has; empty where the kernel does not tell."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def lost(branch: str) -> JobLost:
    """The error for somebody who would build upon what may be torn."""
    return JobLost(
        f"the machine went down before branch {branch!a} was sealed: what its last job left may be torn",
        hint=f"resolvent branch rm {quote(branch)}",
    )


class BootNote:
    """The boot in which somebody was let in to write, as a file; it is on the disk when the call returns."""

    def __init__(self, path: Path, *, boot: str) -> None:
        self._path = path
        self._boot = boot

    @property
    def torn(self) -> bool:
        """Who was let in was so in another boot, and nothing was made to last since."""
        return bool(self._boot) and self._noted not in ("", self._boot)

    def leave(self) -> None:
        """Somebody writes from now on."""
        if not self._boot or self._noted == self._boot:
            return
        write_whole(self._path, self._boot)
        flush_names(self._path.parent)

    def remove(self) -> None:
        """All that was written is on the disk."""
        self._path.unlink(missing_ok=True)
        flush_names(self._path.parent)

    @property
    def _noted(self) -> str:
        try:
            return self._path.read_text()
        except FileNotFoundError:
            return ""
