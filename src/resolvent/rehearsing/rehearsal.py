"""One rehearsal: where its copy, its forge and its record lie, and what is remembered of it."""

import fcntl
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from resolvent.adapters.workspace.files import remove_tree
from resolvent.errors import NotFound, UsageError

Ci = Literal["passed", "failed", "none"]
NOTE = "rehearsal.json"
# So many stay to be looked at; those that were to be kept do not count.
REMEMBERED = 3


@dataclass(frozen=True)
class Rehearsal:
    """What was copied from where, and how it is played."""

    directory: Path
    repo: str
    kind: Literal["issue", "pull"]
    number: int
    # Who a run is on the real forge, and so here.
    login: str
    ci: Ci = "passed"
    kept: bool = False
    # Agents and checks run without walls, and reach what the person can.
    unsafe: bool = False
    # Where its forge was served, so that links stay good when it is served again.
    port: int = 0
    # The variables that hold secrets of the real forge, whatever they are called: a run gets none of them.
    withheld: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def project(self) -> Path:
        """The checkout that the run takes its configuration from."""
        return self.directory / "project"

    @property
    def state(self) -> Path:
        """What a run records, apart from what any other has recorded."""
        return self.directory / "state"

    @property
    def forge(self) -> Path:
        """The rehearsal forge."""
        return self.directory / "forge"

    @property
    def report(self) -> Path:
        """The run as one page."""
        return self.directory / "report.html"

    @property
    def happened(self) -> Path:
        """What was written on the rehearsal forge in our name, a line each."""
        return self.directory / "happened.jsonl"

    @property
    def owner(self) -> str:
        return self.repo.partition("/")[0]

    @property
    def name(self) -> str:
        return self.repo.partition("/")[2]

    def save(self) -> None:
        """Remember it."""
        told = {name: value for name, value in asdict(self).items() if name != "directory"}
        (self.directory / NOTE).write_text(json.dumps(told), encoding="utf-8")


def rehearsals(state: Path) -> Path:
    """Where the rehearsals of a state directory lie."""
    return state / "rehearsals"


def fresh(state: Path, name: str) -> Path:
    """An empty private directory for a new one; of those before it only the newest stay."""
    place = rehearsals(state)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = [path for path in place.iterdir() if not _kept(path)]
    for old in sorted(before, key=lambda path: path.stat().st_mtime, reverse=True)[REMEMBERED - 1 :]:
        if hold(old):
            remove_tree(old)
    directory = place / f"{name}-{secrets.token_hex(2)}"
    directory.mkdir(mode=0o700)
    hold(directory)
    return directory


def hold(directory: Path) -> bool:
    """Have it for this process, until it ends; False when another process has it."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # Never closed: that would let go of it.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True


def _kept(path: Path) -> bool:
    # One without a note is being made, or was left half-made.
    with suppress(UsageError):
        return _read(path).kept
    return False


def taken_up(state: Path, id: str) -> Rehearsal:
    """The rehearsal of that name, or in that directory; NotFound, with those there are, when there is none."""
    place = rehearsals(state)
    if "/" in id:
        directory = Path(id).expanduser().absolute()
        place, id = directory.parent, directory.name
    there = sorted(path.parent.name for path in place.glob(f"*/{NOTE}"))
    if id not in there:
        named = ", ".join(there) or "none"
        raise NotFound(
            f"there is no rehearsal {id[:80]!a}; there are: {named}", hint="resolvent rehearse --go-on DIRECTORY"
        )
    if not hold(place / id):
        raise UsageError(
            f"{id} is being played by another process", hint=f"wait, then: resolvent rehearse --go-on {id}"
        )
    return _read(place / id)


def _read(directory: Path) -> Rehearsal:
    try:
        told = json.loads((directory / NOTE).read_text(encoding="utf-8"))
        return Rehearsal(directory, **told | {"withheld": tuple(told.get("withheld", ()))})
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{directory} holds no rehearsal", hint="resolvent rehearse --help") from error
