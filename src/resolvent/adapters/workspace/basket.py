"""What an export takes in, leaves out and refuses, within bounds: an agent may have left any amount of anything."""

import os

from resolvent.adapters.workspace.files import MAX_DEPTH
from resolvent.adapters.workspace.names import poses_as_git, shown
from resolvent.adapters.workspace.objects import Entry, Pack
from resolvent.errors import ExportRefused

# Of one file, and of all that are new or changed: a file with holes takes no place where it lies, but here.
MAX_BYTES, MAX_TOTAL = 100 << 20, 1 << 30
MAX_PATH = 3000
# How many files may be new or changed, and how many names may be looked at that the commit does not hold.
MAX_FILES, MAX_LOOKS = 250_000, 1_000_000
# How many are named that were left out, and how many refused ones are looked for before the rest does not matter.
MAX_SKIPPED, MAX_REFUSED = 1000, 100
_LISTED = 20


class Basket:
    """The new objects of one export, and what is to be said about the rest."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self._skipped: list[bytes] = []
        self._refused: dict[bytes, str] = {}
        self._looks = self._files = self._bytes = 0

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was left out, as far as it is named."""
        return tuple(map(shown, self._skipped))

    def look(self, path: bytes) -> None:
        """A name that the commit does not hold; ExportRefused when there are too many of them."""
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise _too_much(f"more than {MAX_LOOKS} names that are not in the commit", path)

    def leave(self, path: bytes) -> None:
        """Leave something out."""
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped.append(path)

    def refuse(self, path: bytes, reason: str) -> None:
        """Something that no commit may hold; ExportRefused at once when there is plenty of it."""
        self._refused[path] = reason
        if len(self._refused) >= MAX_REFUSED:
            self.check()

    def keep(self, path: bytes, mode: str, content: bytes, *, old: Entry | None) -> Entry:
        """What a commit shall hold for a file or link; its content goes into the pack unless it is the old one."""
        oid = self.pack.name("blob", content)
        if old is None or old.oid != oid:
            self._files += 1
            self._bytes += len(content)
            if self._files > MAX_FILES:
                raise _too_much(f"more than {MAX_FILES} new or changed files", path)
            if self._bytes > MAX_TOTAL:
                raise _too_much(f"more than {MAX_TOTAL >> 20} MiB of new or changed files", path)
            self.pack.add("blob", content)
        return Entry(kept_mode(mode, old=old), oid)

    def check(self) -> None:
        """ExportRefused, which names paths that cannot become part of a commit, if there are any."""
        if self._refused:
            listed = [f"{shown(path)[:200]!a} {reason}" for path, reason in self._refused.items()]
            more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
            raise ExportRefused(
                f"cannot become a commit: {'; '.join(listed[:_LISTED])}{more}", paths=list(map(shown, self._refused))
            )


class Refused(Exception):
    """Why one file cannot become part of a commit."""


def refusal(path: bytes, *, depth: int) -> str:
    """Why no commit may hold this path, whose directory is that deep; empty when one may."""
    if poses_as_git(path.rpartition(b"/")[2]):
        return "poses as a repository"
    if depth > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} directories deep"
    return "has too long a path" if len(path) > MAX_PATH else ""


def read_whole(fd: int) -> tuple[str, bytes]:
    """Mode and content of an open file as git would keep them; closes it. Refused when it is none that can be kept."""
    with os.fdopen(fd, "rb", buffering=0) as file:
        about = os.fstat(fd)
        content = file.read(about.st_size + 1) if about.st_size <= MAX_BYTES else b""
    if about.st_size > MAX_BYTES:
        raise Refused(f"is larger than {MAX_BYTES >> 20} MiB")
    if len(content) != about.st_size:
        raise Refused("changes while it is read")
    return "100755" if about.st_mode & 0o100 else "100644", content


def kept_mode(mode: str, *, old: Entry | None) -> str:
    """Old repositories hold modes such as 100664: untouched means untouched."""
    same = old is not None and old.mode[:3] == mode[:3] and int(old.mode, 8) & 0o100 == int(mode, 8) & 0o100
    return old.mode if old is not None and same else mode


def _too_much(what: str, path: bytes) -> ExportRefused:
    name = shown(path)
    return ExportRefused(f"cannot become a commit: {what}; {name[:200]!a} is the first too many", paths=[name])
