"""Where attacks are tried: the product in a throw-away state directory, and around it what no attack may touch."""

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from resolvent.adapters.workspace.files import remove_tree
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Job, Limits
from resolvent.testing.escape import inside
from resolvent.testing.escape.found import Broken, Found, Report
from resolvent.wiring import PLAIN_PATH, Home

if TYPE_CHECKING:
    from resolvent.adapters.workspace.repository import TrustedRepository
    from resolvent.adapters.workspace.rungs import Rung
    from resolvent.ports import Workspace

T = TypeVar("T")

WALL_S = 25.0
# The attacker's own programs, laid into its private directory.
INSIDE = Path(inside.__file__).parent
NEEDED = "import ctypes, fcntl, hashlib, json, mmap, pty, shutil, socket, subprocess"
FILES = {"README.md": "read me\n", "value.txt": "good\n", "src/app.py": "print('app')\n", ".gitignore": "ignored/\n"}
VARIABLE = "RESOLVENT_PROVE_SECRET"


def same(job: Job) -> Job:
    """The job as the product made it."""
    return job


def limited(**limits: Any) -> Callable[[Job], Job]:
    """The job with other limits, as settings would give it."""
    return lambda job: job.model_copy(update={"limits": job.limits.model_copy(update=limits)})


@dataclass
class Arena:
    """The product as it is wired for a user, with one wall fewer if `weaken` says so."""

    directory: Path
    home: Home
    rung: "Rung"
    workspace: "Workspace"
    repository: "TrustedRepository"
    base: Change
    weaken: Callable[[Job], Job] = same
    unsafe: bool = False
    # What the host keeps to itself, and what must never be seen anywhere else.
    secret: str = field(default_factory=lambda: f"secret-{secrets.token_hex(12)}")
    python: str = ""
    reads: tuple[str, ...] = ()
    _count: int = 0
    _started: list[str] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, directory: Path, *, rung: str = "auto", weaken: Callable[[Job], Job] = same, unsafe: bool = False
    ) -> "AsyncIterator[Arena]":
        """Everything set up below an empty directory, and taken down again; NoSandbox where that rung does not hold."""
        directory.chmod(0o755)
        path = os.environ.get("PATH", PLAIN_PATH)
        environ = {"PATH": path, "HOME": str(directory), "RESOLVENT_HOME": str(directory / "state")}
        home = Home.of(directory, environ=environ, overrides=(f'sandbox.rung="{rung}"',))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, remove_tree, directory / "state")
            stack.push_async_callback(home.close)
            found, repository = await home.rung(), await home.git_repository()
            stack.push_async_callback(asyncio.to_thread, remove_tree, Path(found.sandbox))
            base = await _first_commit(repository)
            arena = cls(directory, home, found, await home.workspace(), repository, base, weaken, unsafe)
            stack.push_async_callback(arena._end_jobs)
            arena._surround()
            # What a person's own environment holds: no process of an agent may ever see it.
            os.environ[VARIABLE] = arena.secret
            stack.callback(os.environ.pop, VARIABLE, None)
            await arena._find_python()
            yield arena

    @property
    def outside(self) -> Path:
        """A directory of the host that everybody may read, and that no box shows."""
        return self.directory / "outside"

    @property
    def secret_file(self) -> Path:
        return self.outside / "secret.txt"

    @property
    def backwards(self) -> str:
        """The secret as an attacker is told what to look for, without being given it."""
        return self.secret[::-1]

    def _surround(self) -> None:
        # Nothing but the walls keeps a box from here: no owner, no mode.
        for place, mode in ((self.outside, 0o755), (self.outside / "treasure", 0o755), (self.outside / "open", 0o777)):
            place.mkdir()
            place.chmod(mode)
        for place in (self.secret_file, self.outside / "treasure/secret.txt"):
            place.write_text(self.secret)
            place.chmod(0o644)

    def canary(self, name: str) -> Path:
        """A file that is not there, in a place that everybody may write to: if it comes to be, somebody got out."""
        return self.outside / "open" / name

    async def branch(self, name: str) -> Branch:
        """A branch of the sample commit."""
        self._count += 1
        return await self.workspace.root(self.base, id=f"prove/{name}#{self._count}")

    async def attack(
        self,
        act: str,
        given: Mapping[str, Any] | None = None,
        *,
        branch: Branch | None = None,
        adjust: Callable[[Job], Job] = same,
    ) -> Report:
        """Run one of the attacker's programs in a branch, through the product; Broken when no box could be built."""
        job, private, branch = await self.prepare(act, given or {}, branch=branch)
        return await self.start(adjust(job), private, branch)

    async def prepare(self, act: str, given: Mapping[str, Any], *, branch: Branch | None) -> tuple[Job, Path, Branch]:
        """The job in its box, and where it is."""
        branch = branch or await self.branch(act)
        self._count += 1
        id = f"prove-{self._count}-{act}"
        private = Path(self.home.private_directory(id))
        for program in INSIDE.glob("*.py"):
            shutil.copyfile(program, private / program.name)
        for name in ("ready", "go"):
            os.mkfifo(private / "tmp" / name)
        place = self.workspace.inside(str(private))
        job = Job(
            id=id,
            argv=(self.python, "-B", "-s", "-E", f"{place}/act.py", act),
            reads=self.reads,
            environment={"PATH": PLAIN_PATH, "HOME": f"{place}/home", "TMPDIR": f"{place}/tmp"},
            stdin=json.dumps(given),
            limits=Limits(wall_s=WALL_S, grace_s=0.5),
        )
        entered = await self.workspace.enter(branch, job, private=str(private), unsafe=self.unsafe)
        return entered, private, branch

    async def start(self, job: Job, private: Path, branch: Branch) -> Report:
        """Run a job that was prepared to its end."""
        jobs = self.home.jobs()
        self._started.append(job.id)
        exit = await jobs.ensure(self.weaken(job))
        if exit.ending == "unstartable":
            raise Broken(exit.message)
        output = await asyncio.to_thread(jobs.output(job.id).read_bytes)
        return Report(job.id, exit, output.decode(errors="replace"), branch, private)

    async def watched(
        self,
        look: Callable[[Job, Branch], Awaitable[T]],
        *,
        act: str = "show_yourself",
        given: Mapping[str, Any] | None = None,
        adjust: Callable[[Job], Job] = same,
    ) -> T:
        """Do something on the host while a program stands in its box and waits for it; what was seen."""
        job, private, branch = await self.prepare(act, {}, branch=None)
        place = f"{self.workspace.inside(str(private))}/tmp"
        told = {"ready": f"{place}/ready", "go": f"{place}/go"}
        job = adjust(job.model_copy(update={"stdin": json.dumps(dict(given or {}) | told)}))
        ready = os.open(private / "tmp/ready", os.O_RDONLY | os.O_NONBLOCK)
        go = os.open(private / "tmp/go", os.O_RDWR | os.O_NONBLOCK)
        try:
            running = asyncio.create_task(self.start(job, private, branch))
            met = asyncio.create_task(_readable(ready))
            await asyncio.wait((running, met), return_when=asyncio.FIRST_COMPLETED)
            seen = await look(job, branch)
            os.write(go, b"go\n")
            # Whether it could be started at all is said here.
            await running
        finally:
            met.cancel()
            os.close(ready)
            os.close(go)
        return seen

    @contextmanager
    def victim(self) -> "Iterator[subprocess.Popen[bytes]]":
        """A process of the host that belongs to the boxes' own user: only walls protect it."""
        user: dict[str, Any] = {}
        if self.rung.user is not None:
            user = {"user": self.rung.user, "group": self.rung.user, "extra_groups": []}
        command = ("/bin/sh", "-c", "read wait", f"victim-{self.secret}")
        # It ends with its input, at the latest when we end.
        with subprocess.Popen(command, stdin=subprocess.PIPE, env={VARIABLE: self.secret}, cwd="/", **user) as process:
            yield process
            assert process.stdin is not None
            process.stdin.close()

    async def _end_jobs(self) -> None:
        """Whoever was interrupted leaves nothing running."""
        jobs = self.home.jobs()
        for id in self._started:
            if jobs.running(id):
                await jobs.cancel(id)

    async def _find_python(self) -> None:
        """An interpreter that a box can start: the system's, or else the one we run on."""
        own = os.path.realpath(sys.executable)
        for program, reads in (("/usr/bin/python3", ()), (own, (sys.base_prefix, own))):
            if not os.access(program, os.X_OK):
                continue
            self.python, self.reads = program, tuple(reads)
            job, private, branch = await self.prepare("find_python", {}, branch=None)
            tried = job.model_copy(update={"argv": (program, "-B", "-c", NEEDED)})
            try:
                if (await self.start(tried, private, branch)).exit.exit == 0:
                    return
            except Broken:
                continue
        self.python, self.reads = "/usr/bin/python3", ()


async def _readable(descriptor: int) -> None:
    loop, happened = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, happened.set)
    try:
        await happened.wait()
    finally:
        loop.remove_reader(descriptor)


async def _first_commit(repository: "TrustedRepository") -> Change:
    from resolvent.adapters.git import Git

    files = "".join(f"M 644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in FILES.items())
    who = "committer Prove <prove@localhost> 1767603600 +0000\n"
    order = f"commit refs/heads/base\n{who}data 5\nfirst\n{files}"
    await Git(repository.path)("fast-import", "--quiet", input=order.encode())
    return await repository.change("refs/heads/base")


class Attack(NamedTuple):
    """One row: what is tried, what stands against it, and the trial itself."""

    name: str
    defence: str
    attempt: Callable[[Arena], Awaitable[Found]]
    # It takes so much that nothing else can be measured beside it.
    alone: bool = False
