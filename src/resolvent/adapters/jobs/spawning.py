"""Our side of the nursery: the program that it is, one process of it per owner, and how a supervisor is asked for."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import py_compile
import shutil
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

from resolvent.adapters.jobs.nursery import SHOWN, STARTED

PROGRAMS = Path(__file__).parent
# What lies beside it is what it may load besides itself; only these are none of its programs.
OURS = ("__init__", "remains", "spawning", "supervised", "tail")
PATIENCE_S = 30.0
# All that it is given of our environment: whom the gateways of its jobs trust.
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PREFIX = "supervise-"


class Nursery:
    """Supervisors for the jobs below one directory; OSError when none can be had."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environment = {name: environ[name] for name in CERTIFICATES if name in environ}
        self._socket: socket.socket | None = None
        self._end: weakref.finalize[..., Nursery] | None = None
        # Answers come in the order of the questions; those of whoever gave up waiting are still to come.
        self._owed = 0
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def spawn(self, directory: Path, descriptors: tuple[int, int, int], *, needs: bytes) -> bool:
        """Have a job supervised, given its order, a log and its lock; False when nobody can tell whether it is."""
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._turn = asyncio.get_running_loop(), asyncio.Lock()
        words = needs + os.fsencode(directory)
        async with self._turn:
            nursery = self._socket
            if nursery is None:
                nursery = self._socket = await asyncio.to_thread(self._start)
            try:
                while self._owed:
                    await self._answer(nursery)
                socket.send_fds(nursery, [words], descriptors)
                self._owed += 1
                said = await self._answer(nursery)
            except (ConnectionError, TimeoutError):
                said = b""
            if said != STARTED:
                await asyncio.to_thread(self.close)
            return said == STARTED

    async def _answer(self, nursery: socket.socket) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            said = await asyncio.get_running_loop().sock_recv(nursery, 1)
        self._owed -= 1
        return said

    def close(self) -> None:
        """Let the nursery end; the supervisors that came from it go on."""
        if self._end:
            self._end()
        self._socket = self._end = None
        self._owed = 0

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs, program_below(self._root) as (program, held):
            command = [sys.executable, "-I", "-S", "-X", "utf8", str(program), " " * SHOWN]
            with open(self._root / "nursery.log", "ab", opener=_only_ours) as log:
                process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=log,
                    stderr=log,
                    env=self._environment,
                    start_new_session=True,
                    pass_fds=(held,),
                )
        self._end = weakref.finalize(self, _end, ours, process)
        return ours


def _only_ours(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    try:
        # It ends with the socket; one that hangs has forked nobody whom its end could hurt.
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def program_below(root: Path) -> Iterator[tuple[Path, int]]:
    """The nursery's program, compiled once for all jobs, and a lock for it to hold: what nobody holds is removed."""
    sources = [source for source in sorted(PROGRAMS.glob("*.py")) if source.stem not in OURS]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    compiled = root / f"{PREFIX}{sys.implementation.cache_tag}-{digest}"
    while (held := _held(compiled)) is None:
        _compile(sources, compiled)
        _sweep(root, but=compiled)
    try:
        yield compiled / "nursery.pyc", held
    finally:
        os.close(held)


def _held(compiled: Path, how: int = fcntl.LOCK_SH) -> int | None:
    """A locked descriptor of a whole program; None when there is none, or when another has it in another way."""
    try:
        descriptor = os.open(compiled, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, how)
        # Whoever removed it meanwhile had the lock, and took it out of the way first.
        if os.path.samestat(os.fstat(descriptor), os.stat(compiled)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _compile(sources: list[Path], compiled: Path) -> None:
    """Compiling takes longer than anything the program does later."""
    begun = compiled.with_suffix(f".{os.getpid()}")
    try:
        for source in sources:
            py_compile.compile(
                str(source),
                cfile=str(begun / f"{source.stem}.pyc"),
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        # Half a program that a power loss left would be taken for the whole one ever after.
        for part in begun.iterdir():
            _flush(part)
        with contextlib.suppress(OSError):  # another process was quicker: theirs is the same
            begun.rename(compiled)
    finally:
        shutil.rmtree(begun, ignore_errors=True)


def _sweep(root: Path, *, but: Path) -> None:
    """Remove programs of other versions that nobody runs, and what the dead had begun to compile."""
    for place in root.glob(f"{PREFIX}*"):
        maker = place.suffix.removeprefix(".")
        if maker.isdecimal() and os.path.exists(f"/proc/{maker}"):
            continue
        held = _held(place, fcntl.LOCK_EX | fcntl.LOCK_NB) if place != but else None
        if held is not None:
            away = place.with_suffix(f".{os.getpid()}")
            with contextlib.suppress(OSError):
                place.rename(away)
            shutil.rmtree(away, ignore_errors=True)
            os.close(held)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
