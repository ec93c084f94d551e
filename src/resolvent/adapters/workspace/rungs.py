"""The ladder: the strongest walls that this machine really gives, found by trying, and never a weaker one unasked."""

import asyncio
import hashlib
import json
import os
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Literal

from resolvent import __version__
from resolvent.adapters.workspace.bubblewrap import Bubblewrap, candidates, discover
from resolvent.adapters.workspace.confine import Walls, furnish
from resolvent.adapters.workspace.files import remove_tree, translated
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.adapters.workspace.probing import attempt
from resolvent.adapters.workspace.remedies import UNMASK, Failure, Machine, Trouble, explain, filesystem, text_of
from resolvent.domain.job import Limits
from resolvent.domain.model import Value
from resolvent.errors import NoSandbox, StepFailed

Name = Literal["overlay", "memory", "copy", "landlock", "plain"]
# The strongest first. `plain` is no rung: it is the ground.
LADDER: tuple[Name, ...] = ("overlay", "memory", "copy", "landlock")
MEMORY = Path("/dev/shm")
ROOM_BYTES = 256 << 20
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Trial(Value):
    """One rung that was tried: why it does not hold, or what is missing on it."""

    rung: Name
    works: bool
    why: str = ""
    fix: str = ""


class Rung(Value):
    """Where a machine stands on the ladder."""

    name: Name
    # The directory of the store of branches.
    sandbox: str
    # Whom a root caller's jobs run as; None: the caller itself.
    user: int | None = None
    bwrap: Bubblewrap | None = None
    # False where a container masks /proc: then boxes have none.
    proc: bool = True
    # What was tried on the way down, the strongest first.
    tried: tuple[Trial, ...] = ()

    @property
    def kind(self) -> Literal["namespaces", "landlock"] | None:
        """What the walls are made of; None: there are none."""
        if self.name == "plain":
            return None
        return "landlock" if self.name == "landlock" else "namespaces"

    @property
    def overlay(self) -> bool:
        """Branches are layers; else they are copies."""
        return self.name in ("overlay", "memory")

    def walls(
        self, *, reads: tuple[str, ...] = (), network: tuple[str, ...] = (), limits: Limits | None = None
    ) -> Walls | None:
        """The walls around every job of this store, ready to use; None: there are none."""
        if self.kind is None:
            return None
        sandbox, user = Path(self.sandbox), self.user
        return Walls(
            kind=self.kind,
            bwrap=self.bwrap.path if self.bwrap else "",
            user=user,
            reads=reads,
            network=network,
            limits=limits or Limits(),
            etc=furnish(sandbox, user=os.getuid() if user is None else user) if self.kind == "namespaces" else "",
            proc=self.proc,
        )


class _Remembered(Value):
    """An answer, and everything it hangs on."""

    key: str
    rung: Rung


async def find(state: Path, *, wanted: Name | Literal["auto"] = "auto", path: str = "", fresh: bool = False) -> Rung:
    """The rung asked for, or for `auto` the strongest that works and never `plain`; NoSandbox with the fix otherwise.

    The answer is remembered until the machine changes; `fresh` tries again.
    """
    sandbox = state / "sandbox"
    if trouble := _private(sandbox):
        raise NoSandbox(trouble.why, hint=trouble.fix)
    if wanted == "plain":
        return Rung(name="plain", sandbox=str(sandbox))
    path = path or DEFAULT_PATH
    key = _key(wanted, state, path)
    rung = None if fresh else _recall(sandbox, key)
    if rung is None:
        rung = await _climb(state, wanted, path=path)
        # Not by the model itself: a path that is no text would stop it.
        kept = json.dumps(_Remembered(key=key, rung=rung).model_dump(), indent=1)
        await asyncio.to_thread(_remember, sandbox / "rung.json", kept)
    return rung


async def _climb(state: Path, wanted: Name | Literal["auto"], *, path: str) -> Rung:
    """Down the ladder until something holds."""
    user, bwrap, machine = jobs_user(state), await discover(path), Machine.look()
    tried: list[Trial] = []
    for name in LADDER if wanted == "auto" else (wanted,):
        place = in_memory(state) if name == "memory" else state / "sandbox"
        rung = Rung(name=name, sandbox=str(place), user=user)
        found: Rung | Trouble
        if rung.kind == "landlock":
            found = await _hold(rung, machine)
        elif isinstance(bwrap, Trouble):
            found = bwrap
        else:
            found = await _hold(rung.model_copy(update={"bwrap": bwrap}), machine)
        if isinstance(found, Rung):
            return found.model_copy(update={"tried": (*tried, *found.tried)})
        tried.append(Trial(rung=name, works=False, why=found.why, fix=found.fix))
    raise _nothing_holds(wanted, tried)


async def _hold(rung: Rung, machine: Machine) -> Rung | Trouble:
    """Stand on a rung: itself when it holds, without /proc if need be, or what breaks."""
    place = Path(rung.sandbox)
    if rung.name != "memory":
        return await _stand(rung, machine)
    there = await asyncio.to_thread(os.path.lexists, place)
    found = _private(place) or _narrow(place) or await _stand(rung, machine)
    if isinstance(found, Trouble) and not there:
        await asyncio.to_thread(remove_tree, place)
    return found


async def _stand(rung: Rung, machine: Machine) -> Rung | Trouble:
    place = Path(rung.sandbox)
    failure = await _attempt(rung)
    if failure is None:
        return rung
    trouble = explain(failure, rung=rung.name, store=place, machine=machine)
    if trouble.fix != UNMASK:
        return trouble
    bare = rung.model_copy(update={"proc": False})
    failure = await _attempt(bare)
    if failure is None:
        missing = Trial(rung=rung.name, works=True, why=trouble.why, fix=trouble.fix)
        return bare.model_copy(update={"tried": (missing,)})
    return explain(failure, rung=rung.name, store=place, machine=machine)


async def _attempt(rung: Rung) -> Failure | None:
    try:
        with translated():
            walls = await asyncio.to_thread(rung.walls)
    except StepFailed as error:
        return Failure(kind="building", said=error.message)
    assert walls is not None, "the ground is not tried"
    return await attempt(walls, Path(rung.sandbox), layered=rung.overlay)


def reasons(tried: Sequence[Trial]) -> list[tuple[str, Trial]]:
    """What was tried, neighbours with the same trouble told as one: their names, and the trial."""
    told = []
    for _, same in groupby(tried, key=lambda trial: (trial.why, trial.works)):
        group = list(same)
        names = [trial.rung for trial in group]
        told.append((" and ".join([", ".join(names[:-1]), names[-1]]) if names[1:] else names[0], group[0]))
    return told


def _nothing_holds(wanted: str, tried: Sequence[Trial]) -> NoSandbox:
    why = "; ".join(f"{names}: {trial.why}" for names, trial in reasons(tried))
    # Mending the strongest that can be mended mends the most.
    fix = tried[0].fix
    if wanted != "auto":
        return NoSandbox(f'sandbox.rung = "{wanted}" does not work here: {tried[0].why}', hint=fix, tried=tried)
    hint = f"{fix}   # or run without any walls: --unsafe"
    return NoSandbox(f"nothing on this machine can confine an agent: {why}", hint=hint, tried=tried)


def _key(wanted: str, state: Path, path: str) -> str:
    """Everything that can change the answer, as far as a look can tell."""
    machine = Machine.look()
    boot = text_of(Path("/proc/sys/kernel/random/boot_id"))
    programs = [(place, os.stat(place).st_mtime_ns) for place, _ in candidates(path)]
    said = (__version__, wanted, os.geteuid(), boot, os.uname().release, machine, programs, filesystem(state))
    return hashlib.sha256(repr(said).encode(errors="backslashreplace")).hexdigest()


def _recall(sandbox: Path, key: str) -> Rung | None:
    try:
        kept = _Remembered.model_validate(json.loads((sandbox / "rung.json").read_bytes()))
    except (OSError, ValueError):
        return None
    # Whoever cleans /dev/shm may have been there.
    return kept.rung if kept.key == key and not _private(Path(kept.rung.sandbox)) else None


def _remember(place: Path, kept: str) -> None:
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    # Forgetting only means to try again.
    with suppress(OSError):
        beside.write_text(kept)
        beside.rename(place)


def in_memory(state: Path) -> Path:
    """Where the store of the memory rung lies."""
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
    return MEMORY / f"resolvent-{os.geteuid()}-{digest}"


def _private(place: Path) -> Trouble | None:
    """Make a directory that is ours alone, or say why it cannot be; /dev/shm is open to everybody's tricks."""
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return Trouble(why=f"{place} is not ours", fix=f"ls -ld {shlex.quote(str(place))}")
        if stat.S_IMODE(found.st_mode) != 0o700:
            place.chmod(0o700)
    except OSError as error:
        return Trouble(why=f"{place} cannot be made: {error.strerror}", fix=f"ls -ld {shlex.quote(str(place.parent))}")
    return None


def _narrow(place: Path) -> Trouble | None:
    about = os.statvfs(place)
    free = about.f_bavail * about.f_frsize
    if free >= ROOM_BYTES:
        return None
    why = f"{MEMORY} has {free >> 20} MB left: branches need {ROOM_BYTES >> 20} or more"
    return Trouble(why=why, fix="docker run --shm-size=4g …")
