"""An agent's program: where it is, what its box must show of it, and the private directory it works with."""

import os
import pwd
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from resolvent.domain.job import Task
from resolvent.domain.record import AgentChoice
from resolvent.errors import AgentMissing

PATH = "/usr/local/bin:/usr/bin:/bin"
MOST_ANSWER_BYTES = 1 << 20
MOST_SHEBANGS = 4
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.I)
# Not on any index: it is installed from where it was cloned to.
INSTALL = "make agents  # where you cloned Resolvent, or there: pip install '.[agents]'"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True)
class Wanted:
    """A program by its usual name, and the Python package that brings it along."""

    name: str
    package: str
    inner: str


CLAUDE = Wanted("claude", "claude_agent_sdk", "_bundled/claude")
CODEX = Wanted("codex", "codex_cli_bin", "bin/codex")


@dataclass(frozen=True)
class Program:
    """A program that can be started: its path, the words a person added, and what a box shows for it."""

    path: str
    words: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


def find(choice: AgentChoice, wanted: Wanted, *, path: str = PATH) -> Program:
    """The program as configured, on the search path, or inside an installed package; AgentMissing otherwise."""
    named, words = (choice.command[0], choice.command[1:]) if choice.command else (wanted.name, ())
    if "/" in named and not named.startswith("/"):
        raise AgentMissing(
            f"agent {choice.name}: {named} is relative, and an agent has no place of its own to start from",
            hint=f"realpath {named}  # and name that in agents.{choice.name}.command",
        )
    seen = (*(word for word in words if word.startswith("/")), *choice.reads)
    found = shutil.which(named, path=path) if named else None
    if found is not None:
        return Program(found, words, (*_shown(found, path), *seen))
    packaged = _packaged(wanted) if named == wanted.name else None
    if packaged is not None:
        return Program(str(packaged / wanted.inner), words, (str(packaged), *seen))
    if Path(named).is_file():
        raise AgentMissing(f"agent {choice.name}: {named} is not executable", hint=f"chmod +x {named}")
    raise unfound(choice.name, named, path=path, hint=INSTALL if Path(named).name == wanted.name else "")


def unfound(agent: str, program: str, *, path: str, hint: str = "") -> AgentMissing:
    """The error about a program that is nowhere; the search path is told only where it was searched."""
    looked = "" if "/" in program else f", looked for in {path}"
    usual = f"command -v {quote(Path(program).name) if program else 'PROGRAM'}"
    return AgentMissing(
        f"agent {agent}: there is no program {program!r} that can be run{looked}",
        hint=hint or f"{usual}  # and name its full path in agents.{agent}.command",
    )


def _packaged(wanted: Wanted) -> Path | None:
    # Found, not imported: what it needs to be imported is none of ours.
    spec = find_spec(wanted.package)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return package if os.access(package / wanted.inner, os.X_OK) else None


def _shown(program: str, path: str, *, deeper: int = MOST_SHEBANGS) -> tuple[str, ...]:
    """The program, the directory its file really lies in, and whatever interprets it."""
    real = os.path.realpath(program)
    reads = [program, real]
    if not _private(os.path.dirname(real)):
        reads.append(os.path.dirname(real))
    interpreter = _interpreter(real, path)
    if interpreter is not None and deeper:
        reads += _shown(interpreter, path, deeper=deeper - 1)
    return tuple(dict.fromkeys(reads))


def _private(directory: str) -> bool:
    """A person's home, or a place above it: too much to show for one program."""
    homes = [os.path.realpath("/tmp")]
    with suppress(KeyError):
        homes.append(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    return any(home == directory or home.startswith(directory.rstrip("/") + "/") for home in homes)


def _interpreter(program: str, path: str) -> str | None:
    """What the first line of a script asks for, found as its own `env` would find it."""
    try:
        with open(program, "rb") as file:
            first = file.readline(256)
    except OSError:
        return None
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if not re.match(r"-|\w+=", word)]
    return shutil.which(words[0], path=path) if words else None


def contract(task: Task) -> dict[str, str]:
    """What every agent finds in its environment, whatever its program is."""
    return {
        "LANG": "C.UTF-8",
        "HOME": f"{task.inside}/home",
        "TMPDIR": f"{task.inside}/tmp",
        "RESOLVENT_RUN": task.run,
        "RESOLVENT_STEP": task.step,
        "RESOLVENT_ATTEMPT": str(task.attempt),
        "RESOLVENT_TURN": str(task.turn),
        "RESOLVENT_SCHEMA": task.json_schema or "{}",
        "RESOLVENT_ANSWER": f"{task.inside}/{task.answer_file}",
    }


def secrets_in(allowed: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names say that they are secret."""
    return tuple(value for name, value in allowed.items() if value and _SECRET.search(name))


def lay_out(task: Task, *inner: str) -> None:
    """Make the private directories of a turn, as far as they are not there: the turns of a session share them."""
    top = Path(task.directory)
    for place in (top, top / "home", top / "tmp", *(top / name for name in inner)):
        # Asked again, an agent may have put something else in their place.
        with suppress(FileExistsError):
            place.mkdir(mode=0o700, parents=True)
            _give(place, like=top)


def put(task: Task, name: str, content: str) -> None:
    """Write a file below the private directory anew, over no link; the agent may read and write it."""
    above, _, last = name.rpartition("/")
    top = os.open(task.directory, _DIRECTORY)
    try:
        folder = os.open(above or ".", _DIRECTORY, dir_fd=top)
    finally:
        os.close(top)
    try:
        with suppress(FileNotFoundError):
            os.unlink(f".{last}.new", dir_fd=folder)
        descriptor = os.open(f".{last}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            owner = os.fstat(folder)
            if owner.st_uid != os.getuid():
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.rename(f".{last}.new", last, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _give(place: Path, *, like: Path) -> None:
    """What we make between two turns belongs to whom the rest belongs."""
    owner = os.lstat(like)
    if owner.st_uid != os.getuid():
        os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)


def left(task: Task, name: str = "", *, most: int = MOST_ANSWER_BYTES) -> str | None:
    """A regular, small UTF-8 file of the private directory, reached over no link; None when there is none.

    The turn's answer file unless a name is given. OSError or ValueError when something else lies there.
    """
    name = name or task.answer_file
    try:
        folder = os.open(task.directory, _DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        # Not blocking: what lies there may be a fifo that nobody writes to.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{name} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{name} is larger than {most} bytes")
    return content.decode()
