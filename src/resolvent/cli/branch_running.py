"""A command in a branch, in the foreground: what it prints as it comes, and how it is stopped."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from asyncinotify import Inotify, Mask

from resolvent.branching import Branching
from resolvent.cli.terminal import clean, stderr
from resolvent.domain.job import Branch, JobExit

WHY = {
    "wall": "took too long",
    "output": "printed too much",
    "memory": "took more memory than it may",
    "disk": "took more disk than it may",
    "cancelled": "was stopped",
}


async def run_in(branching: Branching, branch: Branch, command: tuple[str, ...], *, wall_s: float) -> int:
    """The command's exit code; Ctrl-C ends it with all that it started."""
    job = await branching.job(branch, command, wall_s=wall_s)
    jobs = branching.home.jobs()
    work = asyncio.ensure_future(branching.run(branch, job))
    stops: list[asyncio.Task[None]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: stops.append(asyncio.ensure_future(jobs.cancel(job.id)))
        )
    await _show(jobs.output(job.id), until=work)
    exit = await work
    if exit.ending != "exited":
        stderr().say(f"{' '.join(command)!a} {WHY.get(exit.ending, '')}{exit.message}")
    return exit.exit


async def _show(output: Path, *, until: "asyncio.Future[JobExit]") -> None:
    """Print a file as it grows, until the work is done."""
    at = 0
    with Inotify() as bell:
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        bell.add_watch(output.parent, Mask.CREATE | Mask.MODIFY | Mask.MOVED_TO)
        while True:
            done = until.done()
            at = await asyncio.to_thread(_print_from, output, at)
            if done:
                return
            rung = asyncio.ensure_future(bell.get())
            await asyncio.wait((rung, until), return_when=asyncio.FIRST_COMPLETED)
            rung.cancel()


def _print_from(output: Path, at: int) -> int:
    try:
        with output.open("rb") as file:
            file.seek(at)
            while chunk := file.read(1 << 16):
                if sys.stdout.isatty():
                    print(clean(chunk.decode("utf-8", "replace")), end="", flush=True)
                else:
                    os.write(sys.stdout.fileno(), chunk)
            return file.tell()
    except FileNotFoundError:
        return at
