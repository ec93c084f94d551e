"""The trial of a box: a real job, on the real filesystem, that works in it and then tries to get out."""

import asyncio
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.confine import Walls
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.remedies import Failure
from resolvent.adapters.workspace.scratch import Scratch
from resolvent.domain.job import Files, Job, JobExit, Limits
from resolvent.errors import StepFailed

PATIENCE_S = 20.0
# The step that is tried stands on the last line; the three at the end must fail.
SCRIPT = r"""
set -eu
echo write; echo changed >> kept
echo remove; rm gone
echo rename; mv moved renamed
echo replace; rm -r folder; mkdir folder; echo new > folder/new; [ ! -e folder/old ]
echo execute; printf '#!/bin/sh\n' > program; chmod +x program; ./program
echo keep; echo kept > "$HOME/kept"
echo escape
if (cat "$1") 2>/dev/null; then echo LEAK read; fi
if (echo planted > "$2") 2>/dev/null; then echo LEAK write; fi
shift 2
if ("$@") >/dev/null 2>&1; then echo LEAK reach; fi
echo end
"""
BASH = 'printf %s "$WORD" > /dev/udp/127.0.0.1/"$2"; printf %s "$WORD" > /dev/tcp/127.0.0.1/"$1"'
PYTHON = """
import os, socket, sys
word = os.environb[b"WORD"]
socket.socket(type=socket.SOCK_DGRAM).sendto(word, ("127.0.0.1", int(sys.argv[2])))
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).sendall(word)
"""


@dataclass(frozen=True)
class Outside:
    """What no job may reach: a secret, a place to write in, and two sockets that wait for the job's word."""

    place: Path
    secret: str
    word: str
    tcp: socket.socket
    udp: socket.socket

    def touched(self, said: str) -> str:
        """What a job did out here, whatever it says itself; empty when nothing."""
        if self.secret in said:
            return "read a file outside"
        if (self.place / "planted").exists():
            return "write a file outside"
        return "reach the network" if self.word.encode() in self._heard() else ""

    def _heard(self) -> bytes:
        """All that arrived; anybody on the machine may have said something, only the job knows the word."""
        heard = []
        with suppress(BlockingIOError):
            while True:
                heard.append(self.udp.recv(64))
        with suppress(BlockingIOError):
            while True:
                connection, _ = self.tcp.accept()
                with connection, suppress(OSError):
                    connection.setblocking(False)
                    heard.append(connection.recv(64))
        return b" ".join(heard)


@contextmanager
def outside(walls: Walls) -> Iterator[Outside]:
    """All of it belongs to the job's own user, so that nothing but the walls keeps the job from it."""
    place = Path(tempfile.mkdtemp(prefix="resolvent-probe-"))
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            udp.bind(("127.0.0.1", 0))
            for listener in (tcp, udp):
                listener.setblocking(False)
            secret = secrets.token_hex(16)
            (place / "secret").write_text(secret)
            walls.give(place)
            yield Outside(place, secret, secrets.token_hex(16), tcp, udp)
        finally:
            shutil.rmtree(place, ignore_errors=True)


async def attempt(walls: Walls, sandbox: Path, *, layered: bool) -> Failure | None:
    """Run a job in a box of these walls with its files below that directory; None when all is as it should be.

    StoreBusy when the disk is full or away: that says nothing about walls.
    """
    try:
        with translated(), Scratch(sandbox / "scratch")() as scratch, outside(walls) as beyond:
            files = _laid_out(scratch, walls, layered=layered)
            job = walls.around(_job(walls, scratch, beyond), files=files, private=str(scratch / "private"), objects="")
            jobs = SupervisedJobs(scratch / "jobs")
            ended = await _ended(jobs, job)
            said = jobs.output(job.id).read_text("utf-8", "replace")
            if touched := beyond.touched(said):
                return Failure(kind="leaking", said=touched)
            return _ill(ended, said) or _as_left(scratch, layered=layered)
    except StepFailed as error:
        return Failure(kind="building", said=error.message)


async def _ended(jobs: SupervisedJobs, job: Job) -> JobExit:
    """How the job ended; whoever gives up waiting for it leaves nothing of it behind."""
    try:
        return await jobs.ensure(job)
    except asyncio.CancelledError:
        await jobs.cancel(job.id)
        raise


def _ill(ended: JobExit, said: str) -> Failure | None:
    if ended.ending == "unstartable":
        return Failure(kind="building", said=ended.message.removeprefix("the box cannot be built: "))
    if ended.exit == 0 and said.endswith("\nescape\nend\n"):
        return None
    return Failure(kind="working", said=": ".join(said.splitlines()[-2:]) or ended.message or ended.ending)


def _job(walls: Walls, scratch: Path, beyond: Outside) -> Job:
    ports = [str(listener.getsockname()[1]) for listener in (beyond.tcp, beyond.udp)]
    bash = shutil.which("bash", path="/usr/bin:/bin")
    reach = [bash, "-c", BASH, "bash"] if bash else [sys.executable, "-I", "-S", "-c", PYTHON]
    around = [str(beyond.place / "secret"), str(beyond.place / "planted")]
    return Job(
        id="probe",
        argv=("/bin/sh", "-c", SCRIPT, "sh", *around, *reach, *ports),
        # Only for where there is no bash: then it is Python that tries to reach the network.
        reads=() if bash else (sys.prefix, sys.base_prefix),
        environment={
            "PATH": "/usr/bin:/bin",
            "HOME": walls.inside(str(scratch / "private")) + "/home",
            "WORD": beyond.word,
        },
        limits=Limits(wall_s=PATIENCE_S),
    )


def _laid_out(scratch: Path, walls: Walls, *, layered: bool) -> Files:
    """The smallest tree in which something can be changed, removed, moved and replaced."""
    for directory in ("private/home", "private/tmp", "jobs"):
        (scratch / directory).mkdir(parents=True)
    # A directory above a copy is locked by its job, as is the scratch directory by us.
    top = scratch / ("layers/base/up" if layered else "copy/tree")
    (top / "folder").mkdir(parents=True)
    for name in ("kept", "gone", "moved", "folder/old"):
        (top / name).write_text(f"{name}\n")
    if not layered:
        walls.give(top)
        return Files(tree=str(top))
    for directory in ("up", "wk"):
        (scratch / "layers/top" / directory).mkdir(parents=True)
    walls.give(scratch / "layers")
    return Files(layers=str(scratch / "layers"), upper="top", lowers=("base",))


def _as_left(scratch: Path, *, layered: bool) -> Failure | None:
    """Look from outside at what the job did: it is there, and nowhere else."""
    top = scratch / ("layers/top/up" if layered else "copy/tree")
    base = scratch / "layers/base/up"
    # A whiteout is a device that opens as nothing.
    if (top / "kept").read_text() != "kept\nchanged\n" or os.path.isfile(top / "gone"):
        return Failure(kind="working", said="change files: what it wrote did not arrive")
    if layered and ((base / "kept").read_text() != "kept\n" or not (base / "gone").is_file()):
        return Failure(kind="leaking", said="change a sealed layer")
    return None
