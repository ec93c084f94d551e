"""What a hostile agent takes from inside of its box: time, output, room, memory; run by `act.py`.

Every act stops by itself far above what a box may take: nothing here harms a machine whose walls are missing.
"""

from __future__ import annotations

import errno
import os
import signal

CHUNK = 1 << 20


def stay() -> None:
    """Never end, and listen to nobody who asks for it."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


def flood(most: int) -> int:
    """Print until somebody stops it."""
    line = b"x" * (1 << 16)
    for _ in range(most // len(line)):
        os.write(1, line)
    return most


def fill(place: str, most: int) -> dict[str, object]:
    """Write one file until there is no more room; how much there was."""
    written = 0
    path = os.path.join(place, "filler")
    try:
        with open(path, "wb", buffering=0) as file:
            while written < most:
                written += file.write(bytes(CHUNK))
        ended = "done"
    except OSError as error:
        ended = errno.errorcode.get(error.errno or 0, "failed")
    if os.path.exists(path):
        os.unlink(path)
    return {"bytes": written, "ended": ended}


def fork_bomb(most: int) -> dict[str, object]:
    """Start processes that stay, until no more can be started; they end with the box."""
    children: list[int] = []
    ended = "done"
    while len(children) < most:
        try:
            child = os.fork()
        except OSError as error:
            ended = errno.errorcode.get(error.errno or 0, "failed")
            break
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"forks": len(children), "ended": ended}


def hog_memory(most: int) -> int:
    """Take memory and touch it, a piece at a time, and say so."""
    held = []
    for taken in range(4 * CHUNK, most + 1, 4 * CHUNK):
        held.append(bytearray(os.urandom(1) * (4 * CHUNK)))
        _progress(taken)
    return most


def hog_disk(most: int) -> int:
    """Fill the workspace with files, and say how many bytes are there."""
    os.mkdir("hog")
    piece = os.urandom(CHUNK)
    for taken in range(CHUNK, most + 1, CHUNK):
        with open(f"hog/{taken}", "wb", buffering=0) as file:
            file.write(piece)
        _progress(taken)
    return most


def hog_disk_unnamed(most: int) -> int:
    """The same with files that nobody can list any more: removed as soon as they are open."""
    held = []
    piece = os.urandom(CHUNK)
    for taken in range(CHUNK, most + 1, CHUNK):
        if taken % (16 * CHUNK) == CHUNK:
            held.append(open("unnamed", "wb", buffering=0))  # noqa: SIM115 - it must stay open
            os.unlink("unnamed")
        held[-1].write(piece)
        _progress(taken)
    return most


def _progress(taken: int) -> None:
    os.write(1, f"taken {taken}\n".encode())


def daemonise(ready: str, name: str) -> str:
    """Leave a process behind, called by the name, that obeys no polite signal and is in no session of ours."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            script = f'trap "" TERM HUP INT; echo alive > "{ready}"; while :; do sleep 1; done'
            with open(os.devnull, "r+b") as nothing:
                for descriptor in (0, 1, 2):
                    os.dup2(nothing.fileno(), descriptor)
            os.execv("/bin/sh", [name, "-c", script, name])
        os._exit(0)
    with open(ready) as meeting:
        return meeting.read()
