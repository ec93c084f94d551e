"""Our side of the nursery: the program that it is, one process of it per owner, and how a supervisor is asked for."""

import contextlib
import hashlib
import os
import py_compile
import socket
import subprocess
import sys
import weakref
from pathlib import Path

PROGRAMS = Path(__file__).parent
# What lies beside it is what it may load besides itself; only these are none of its programs.
OURS = ("__init__", "spawning", "supervised")
STARTED, PLAIN, NETWORK = b".", b"p", b"n"
SHOWN = 400
PATIENCE_S = 30.0


class Nursery:
    """Supervisors for the jobs below one directory; OSError when none can be had."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._socket: socket.socket | None = None
        self._end: weakref.finalize[..., Nursery] | None = None

    def spawn(self, directory: Path, descriptors: tuple[int, int, int], *, network: bool) -> bool:
        """Have a job supervised, given its order, a log and its lock; False when nobody can tell whether it is."""
        if self._socket is None:
            self._socket = self._start()
        words = (NETWORK if network else PLAIN) + os.fsencode(directory)
        try:
            socket.send_fds(self._socket, [words], descriptors)
            said = self._socket.recv(1)
        except (ConnectionError, TimeoutError):
            said = b""
        if said != STARTED:
            self.close()
        return said == STARTED

    def close(self) -> None:
        """Let the nursery end; the supervisors that came from it go on."""
        if self._end:
            self._end()
        self._socket = self._end = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE_S)
        command = [sys.executable, "-I", "-S", "-X", "utf8", str(program_below(self._root)), " " * SHOWN]
        with theirs, open(self._root / "nursery.log", "ab", opener=_only_ours) as log:
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=log, stderr=log, env={}, start_new_session=True
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


def program_below(root: Path) -> Path:
    """The nursery's program, compiled once for all jobs: compiling takes longer than anything it does later."""
    sources = [source for source in sorted(PROGRAMS.glob("*.py")) if source.stem not in OURS]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    compiled = root / f"supervise-{sys.implementation.cache_tag}-{digest}"
    if not compiled.is_dir():
        begun = compiled.with_suffix(f".{os.getpid()}")
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
    return compiled / "nursery.pyc"


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
