"""Jobs on a directory of one test, and where the test and their processes wait for each other."""

import asyncio
import json
import os
import select
import subprocess
import sys
from pathlib import Path

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import Job, JobExit

PATH = os.environ["PATH"]
# What another process of ours does: ensure one job and print how it ended.
DRIVER = """
import asyncio, sys
from pathlib import Path
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import Job
root, job, gate = sys.argv[1:]
if gate:
    open(gate).close()
print(asyncio.run(SupervisedJobs(Path(root)).ensure(Job.model_validate_json(job))).model_dump_json())
"""


class Meeting:
    """A fifo where a test and a process wait for each other; its name is its path."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __str__(self) -> str:
        return str(self._path)

    def __del__(self) -> None:
        os.close(self._descriptor)

    async def heard(self) -> str:
        """What the process says here."""
        loop, said = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, said.set)
        try:
            await said.wait()
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, 1000).decode()

    def say(self) -> None:
        """Let the process that reads a line here go on."""
        os.write(self._descriptor, b"go\n")


class Place:
    """A directory for one test: its jobs, and fifos to meet them at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "jobs"
        self.jobs = SupervisedJobs(self.root)

    def job(self, command: str, id: str = "job", **fields: object) -> Job:
        return Job.model_validate(
            {"id": id, "argv": ("/bin/sh", "-c", command), "cwd": str(self.path), "environment": {"PATH": PATH}}
            | fields
        )

    def meeting(self, name: str) -> "Meeting":
        return Meeting(self.path / name)

    def of(self, id: str = "job") -> Path:
        return self.root / id

    def supervisor(self, id: str = "job") -> int:
        return int(json.loads((self.of(id) / "started").read_text())["pid"])

    def parent_of(self, pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def elsewhere(self, job: Job, gate: str = "", **options: object) -> "subprocess.Popen[str]":
        """Another process that ensures the job."""
        argv = [sys.executable, "-c", DRIVER, str(self.root), job.model_dump_json(), gate]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


class Seen:
    """A process we hold on to by descriptor, so that its death can be told from its absence."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)

    def dead(self, *, within_s: float = 0) -> bool:
        return bool(select.select([self._descriptor], [], [], within_s)[0])

    def __del__(self) -> None:
        os.close(self._descriptor)


async def begun(task: "asyncio.Task[JobExit]") -> None:
    """Let a task run up to the first thing it waits for."""
    await asyncio.sleep(0)
    assert not task.done()
