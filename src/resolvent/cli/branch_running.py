"""A command in a branch, in the foreground: what it is given, what it prints as it comes, and how it is stopped."""

import asyncio
import os
import select
import signal
import stat
from pathlib import Path

from asyncinotify import Inotify, Mask

from resolvent.branching import Branching
from resolvent.cli.branch_options import pour
from resolvent.cli.terminal import clean, one_line, stderr
from resolvent.cli.words import seconds
from resolvent.domain.job import Branch, Job, JobExit
from resolvent.errors import UsageError

MAX_GIVEN = 64 << 20
# So much at a time, that who stops a command is not shown more than this.
CHUNK = 1 << 13
LAST_BYTES, LAST_LINES = 2048, 5
PATIENCE_S = 2.0
TOO_LONG = 124
WHY = {
    "idle": "said nothing for too long",
    "output": "printed too much",
    "memory": "took more memory than it may",
    "disk": "took more disk than it may",
    "cancelled": "was stopped",
}


def given() -> bytes:
    """Standard input to its end if it is a pipe or a file, else nothing: nobody waits for somebody who types."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return b""
    if not stat.S_ISFIFO(mode) and not stat.S_ISREG(mode):
        return b""
    if not select.select([0], [], [], PATIENCE_S)[0]:
        stderr().say("waiting for standard input to end; give it none with: </dev/null")
    parts, left = [], MAX_GIVEN
    while part := os.read(0, min(1 << 20, left + 1)):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise UsageError(
                f"standard input holds more than {MAX_GIVEN >> 20} MiB", hint="put it into a file of the repository"
            )
    return b"".join(parts)


async def run_in(branching: Branching, job: Job, *, branch: Branch) -> int:
    """The command's exit code, or why it was ended as a shell tells it; Ctrl-C ends it with all that it started."""
    jobs = branching.home.jobs()
    work = asyncio.ensure_future(branching.run(branch, job))
    caught: list[int] = []
    stops: list[asyncio.Task[None]] = []

    def stop(number: int) -> None:
        caught.append(number)
        stops.append(asyncio.ensure_future(jobs.cancel(job.id)))

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await _show(jobs.output(job.id), until=work, caught=caught)
    except BrokenPipeError:
        # Nobody reads it any more: what a shell would end it by. What is still to be written has to go somewhere.
        stop(signal.SIGPIPE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    exit = await work
    if message := _message(job, exit, jobs.output(job.id)):
        stderr().say(message)
    if exit.ending == "wall":
        return TOO_LONG
    return 128 + caught[0] if caught and exit.ending == "cancelled" else exit.exit


def _message(job: Job, exit: JobExit, output: Path) -> str:
    """What is to be said of its end beyond its exit code, if anything."""
    command = one_line(" ".join(job.argv))
    if exit.exit == 127 and (exit.ending == "unstartable" or _not_found(job.argv[0], output)):
        return f"{one_line(job.argv[0])}: not found in the {'box' if job.box else 'PATH'}"
    if exit.ending == "wall":
        return f"{command} took longer than its limit of {seconds(job.limits.wall_s)}; give it more with --wall SECONDS"
    if exit.ending == "exited":
        return ""
    return clean(" ".join(filter(None, (command, WHY.get(exit.ending, "could not be started:"), exit.message))))


def _not_found(program: str, output: Path) -> bool:
    # The shell that begins every command in a box says so, and nothing else was printed then.
    try:
        with output.open("rb") as file:
            said = file.read(len(os.fsencode(program)) * 2 + 100)
    except FileNotFoundError:
        return False
    return said.count(b"\n") == 1 and said.endswith(b"not found\n") and os.fsencode(program) in said


async def _show(output: Path, *, until: "asyncio.Future[JobExit]", caught: list[int]) -> None:
    """Print a file as it grows, until the work is done; what is left once it is being stopped, no more than its end."""
    at = 0
    with Inotify() as bell:
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        bell.add_watch(output.parent, Mask.CREATE | Mask.MODIFY | Mask.MOVED_TO)
        while True:
            done = until.done()
            if not caught:
                at = await asyncio.to_thread(_print_from, output, at, caught=caught, last=done)
            if done:
                break
            rung = asyncio.ensure_future(bell.get())
            await asyncio.wait((rung, until), return_when=asyncio.FIRST_COMPLETED)
            rung.cancel()
    if caught:
        await asyncio.to_thread(_print_last, output, at)


def _print_from(output: Path, at: int, *, caught: list[int], last: bool) -> int:
    try:
        with output.open("rb") as file:
            file.seek(at)
            while not caught and (chunk := file.read(CHUNK)):
                # Half a character would be shown as none: its rest is waited for, unless nothing more comes.
                whole = len(chunk) if last and len(chunk) < CHUNK else whole_characters(chunk)
                pour(chunk[:whole])
                file.seek(whole - len(chunk), os.SEEK_CUR)
                if not whole:
                    break
            return file.tell()
    except FileNotFoundError:
        return at


def whole_characters(chunk: bytes) -> int:
    """How many of these bytes there are before a character of UTF-8 that has only begun at their end."""
    for back, byte in enumerate(reversed(chunk[-3:]), start=1):
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(chunk) - back if needed > back else len(chunk)
        if byte < 0x80:
            break
    return len(chunk)


def _print_last(output: Path, at: int) -> None:
    try:
        with output.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(at, end - LAST_BYTES))
            skipped, rest = file.tell() > at, file.read(LAST_BYTES)
    except FileNotFoundError:
        return
    lines = rest.splitlines(keepends=True)
    if skipped or len(lines) > LAST_LINES:
        pour(b"\n[...]\n")
    pour(b"".join(lines[-LAST_LINES:]))
