"""Jobs that outlive us: a directory each, and a supervisor that holds its lock for as long as it watches the job."""

import asyncio
import fcntl
import json
import marshal
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from resolvent.adapters.jobs.nursery import NETWORK, PLAIN, SECURE
from resolvent.adapters.jobs.remains import end_session
from resolvent.adapters.jobs.spawning import Nursery
from resolvent.adapters.jobs.tail import Tail
from resolvent.domain.job import Gateway, Job, JobExit
from resolvent.errors import BranchBusy, Bug, JobLost, StoreBusy, Unavailable

TRIES = 3
SAFE_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")


class SupervisedJobs:
    """Every job under `root/<id>`; any number of processes may ask for the same job, it is started once."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._nursery = Nursery(root, environ or {})
        self._tail = Tail()

    async def ensure(self, job: Job) -> JobExit:
        """Start the job, or attach to it, or collect it if it ended; JobLost if it died with its supervisor.

        BranchBusy when it could not begin where it was let in: it may be let in again, and asked for again.
        """
        directory = self._directory(job.id)
        # What its log says of earlier nurseries is no news.
        logged = _size_of(self._root / "nursery.log")
        supervised, tries = False, TRIES
        while (ended := _ended(directory)) is None:
            _lay_out(directory)
            with _Lock(directory) as lock:
                if lock.taken:
                    if (ended := _ended(directory)) is not None:
                        break
                    if supervised or not tries or (directory / "started").exists():
                        await asyncio.to_thread(end_session, directory)
                        raise _gone(directory, logged=logged)
                    # Who cannot tell whether one has begun waits for the lock, and then finds out.
                    supervised, tries = await self._spawn(job, directory, lock.descriptor), tries - 1
                watch = lock.watch()
            await _free(watch)
        return ended

    async def cancel(self, job: str) -> None:
        """End the job with every descendant; return when none is left. Unknown or ended: nothing to do."""
        directory = self._directory(job)
        if not directory.is_dir():
            return
        _lay_out(directory)
        while _ended(directory) is None:
            # Written before looking for a supervisor: one that starts after our look finds it.
            _write(directory / "cancel", b"")
            with _Lock(directory) as lock:
                if lock.taken:
                    await asyncio.to_thread(end_session, directory)
                    return
                watch = lock.watch()
            await _free(watch)

    def output(self, job: str) -> Path:
        """The file that holds its output; standard error too unless the job keeps its streams apart."""
        return self._directory(job) / "output"

    def lines(self, job: str) -> AsyncIterator[bytes]:
        """Every line of its output from the first, as it comes; ends when the job did. A huge one comes in pieces."""
        directory = self._directory(job)
        _lay_out(directory)
        return self._tail.lines(directory, over=lambda: _ended(directory) is not None)

    def running(self, job: str) -> bool:
        """A supervisor holds the job right now."""
        directory = self._directory(job)
        # Asked for every branch that is sealed: what a name alone tells is not read.
        if os.path.exists(f"{directory}/exit.json") or not os.path.exists(f"{directory}/lock"):
            return False
        # Shared: who only looks is not seen by others who look.
        with _Lock(directory, fcntl.LOCK_SH) as lock:
            return not lock.taken

    def _directory(self, job: str) -> Path:
        if not SAFE_ID.fullmatch(job):
            raise Bug(f"not a job id: {job!r}")
        return self._root / job

    async def _spawn(self, job: Job, directory: Path, lock: int) -> bool:
        _write(directory / "job.json", json.dumps(_without_values(job).model_dump(), indent=1).encode())
        given = job.stdin
        _write(directory / "stdin", given if isinstance(given, bytes) else given.encode(errors="replace"))
        (directory / "kept-out").unlink(missing_ok=True)
        try:
            with ExitStack() as opened:
                # The values of the environment may be secret: they reach the supervisor through memory, not a file.
                order = opened.enter_context(_in_memory(marshal.dumps(job.model_dump(exclude={"stdin"}))))
                log = opened.enter_context(_appended(directory / "supervisor.log"))
                descriptors = (order.fileno(), log.fileno(), lock)
                return await self._nursery.spawn(directory, descriptors, needs=_needs(job))
        except OSError as error:
            raise Unavailable(
                f"cannot start a supervisor for job {job.id}: {error}", hint="resolvent doctor"
            ) from error


def _needs(job: Job) -> bytes:
    if not job.box or not (job.box.network or job.box.gateways):
        return PLAIN
    return SECURE if any(gateway.upstream.startswith("https:") for gateway in job.box.gateways) else NETWORK


def _without_values(job: Job) -> Job:
    """The job as it may be written down: with the names of its variables and headers, and none of its secrets."""

    def blank(gateways: tuple[Gateway, ...]) -> tuple[Gateway, ...]:
        return tuple(one.model_copy(update={"headers": dict.fromkeys(one.headers, "")}) for one in gateways)

    box = job.box and job.box.model_copy(update={"gateways": blank(job.box.gateways)})
    names = {"environment": dict.fromkeys(job.environment, ""), "gateways": blank(job.gateways)}
    return job.model_copy(update={**names, "box": box, "stdin": "", "secrets": ()})


class _Lock:
    """The lock of a job: a fifo whose writing end its holder keeps: the death of the holder is an event for readers."""

    def __init__(self, directory: Path, kind: int = fcntl.LOCK_EX) -> None:
        self._path, self._kind = directory / "lock", kind

    def __enter__(self) -> "_Lock":
        self.descriptor = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(self.descriptor, self._kind | fcntl.LOCK_NB)
            self.taken = True
        except BlockingIOError:
            self.taken = False
        return self

    def __exit__(self, *_: object) -> None:
        # Closed, not unlocked: a supervisor that inherited the descriptor keeps the lock.
        os.close(self.descriptor)

    def watch(self) -> int:
        """A descriptor that becomes readable once nobody has the lock any more."""
        # Opened while we are a writer ourselves: without any writer the kernel would not tell that the last one left.
        return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)


async def _free(watch: int) -> None:
    loop = asyncio.get_running_loop()
    free = asyncio.Event()
    try:
        loop.add_reader(watch, free.set)
        await free.wait()
    finally:
        loop.remove_reader(watch)
        os.close(watch)


def _ended(directory: Path) -> JobExit | None:
    try:
        return JobExit.model_validate_json((directory / "exit.json").read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise JobLost(f"the exit of job {directory.name} cannot be read: {error}") from error


def _gone(directory: Path, *, logged: int) -> JobLost | StoreBusy | BranchBusy:
    if (directory / "kept-out").exists():
        why = (directory / "kept-out").read_text()
        return BranchBusy(f"job {directory.name} did not begin: {why}", hint="resolvent branch ls")
    said = _end_of(directory / "supervisor.log") or _end_of(directory.parent / "nursery.log", beyond=logged)
    if (directory / "started").exists():
        return JobLost(
            f"the supervisor of job {directory.name} died before the job ended {said}".rstrip(),
            hint="journalctl -k | grep -i 'killed process'",
        )
    return StoreBusy(f"job {directory.name} could not be started: {said}", hint=f"df -h {directory}")


def _end_of(log: Path, *, beyond: int = 0) -> str:
    return log.read_bytes()[beyond:].decode(errors="replace")[-2000:].strip() if log.exists() else ""


def _size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _lay_out(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (directory / "lock").exists():
            os.mkfifo(directory / "lock", 0o600)
    except FileExistsError:
        return  # another process laid it out at the same time
    except OSError as error:
        raise StoreBusy(f"cannot write to {directory}: {error.strerror}", hint=f"df -h {directory.parent}") from error


def _write(path: Path, content: bytes) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except OSError as error:
        raise StoreBusy(f"cannot write {path}: {error.strerror}", hint=f"df -h {path.parent}") from error


def _in_memory(content: bytes) -> IO[bytes]:
    stream = os.fdopen(os.memfd_create("order"), "w+b")
    stream.write(content)
    stream.seek(0)
    return stream


def _appended(log: Path) -> IO[bytes]:
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
