"""What the campaign sees of processes and mounts from outside, and how it lets others look."""

import os
import pickle
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from resolvent.adapters.jobs.launch import KILL, SET_PDEATHSIG
from resolvent.adapters.jobs.native import native
from resolvent.testing.processes import with_words

T = TypeVar("T")


def free(lock: Path, seconds: float) -> bool:
    """Wait until nobody holds the lock of a job any more; False when somebody still does after that time."""
    # While we are a writer ourselves, or the kernel would not tell that the last one left.
    writing = os.open(lock, os.O_RDWR)
    watch = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)
    os.close(writing)
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watch)


def outlived(words: bytes, seconds: float) -> list[str]:
    """The processes with these words on their command line that are there after that time; returns once none is."""
    until = time.monotonic() + seconds
    while found := with_words(words):
        poll = select.poll()
        handles = []
        for pid in found:
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                poll.register(handles[-1], select.POLLIN)
        left = until - time.monotonic()
        ended = poll.poll(max(0, left) * 1000) if handles else True
        for handle in handles:
            os.close(handle)
        if not ended:
            return [f"{pid}: {command!r}" for pid, command in found.items()]
    return []


def mounts(state: Path) -> frozenset[str]:
    """The mounts on this host that can be ours."""
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return frozenset(line for line in lines if " overlay " in line or " /sys" in line or str(state) in line)


def called(work: Callable[[], T]) -> T:
    """What a function returns that is called in a process of its own; RuntimeError when that died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)

        def answer() -> None:
            with os.fdopen(writing, "wb") as stream:
                stream.write(pickle.dumps(work()))

        end_with(answer)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    status = os.waitpid(child, 0)[1]
    if status or not said:
        raise RuntimeError(f"the process that should tell ended with {status}")
    told: T = pickle.loads(said)
    return told


def end_with(work: Callable[[], None]) -> NoReturn:
    """Do the work in this child, which dies with its parent, and end: nothing of the parent's may run again here."""
    native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
    try:
        work()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(1)
