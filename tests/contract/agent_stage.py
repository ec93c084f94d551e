"""Where real agents are played: a branch of a real store, with the walls of this machine or without any."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.agents.programs import Wanted, find
from resolvent.adapters.git import Git
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, JobExit, Reply, Session, Task
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import Moment
from resolvent.errors import AgentMissing, NoSandbox
from resolvent.ports import Agent, Workspace
from resolvent.wiring import Home

WHO = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
PATIENCE_S = 60.0


def missing(wanted: Wanted) -> str:
    """Why a program cannot be played; empty when it can."""
    try:
        find(AgentChoice(name=wanted.name, use=wanted.name), wanted, path=os.environ["PATH"])
    except AgentMissing as error:
        return f"{wanted.name} is not installed: {error.hint}"
    return ""


@dataclass
class Turn:
    """One turn of an agent: what it was asked, and its process once it was started."""

    agent: Agent
    task: Task
    id: str
    ending: "asyncio.Task[JobExit]"


@dataclass
class AgentStage:
    """A branch, and the private directory of one session in it."""

    home: Home
    workspace: Workspace
    branch: Branch
    boxed: bool
    private: Path
    turns: list[Turn] = field(default_factory=list)

    async def begin(self, agent: Agent, prompt: str = "do it", **about: Any) -> Turn:
        """Start a turn; `about` are fields of its task."""
        number = len(self.turns) + 1
        asked = {"run": "run-1", "step": "analyze", "attempt": 1, "json_schema": "", "turn": number} | about
        inside = self.workspace.inside(str(self.private))
        task = Task(prompt=prompt, directory=str(self.private), inside=inside, boxed=self.boxed, **asked)
        job = agent.job(task, id=f"{self.branch.id}.{number}")
        job = await self.workspace.enter(self.branch, job, private=str(self.private), unsafe=not self.boxed)
        turn = Turn(agent, task, job.id, asyncio.create_task(self.home.jobs().ensure(job)))
        self.turns.append(turn)
        return turn

    async def end(self, turn: Turn) -> Reply:
        """Wait for the end of a turn and read what it left."""
        exit = await asyncio.wait_for(turn.ending, PATIENCE_S)
        return turn.agent.reply(turn.task, exit, self.output(turn))

    async def play(self, agent: Agent, prompt: str = "do it", **about: Any) -> Reply:
        """A whole turn."""
        return await self.end(await self.begin(agent, prompt, **about))

    def output(self, turn: Turn) -> Path:
        """Where its raw lines are."""
        return self.home.jobs().output(turn.id)

    def moments(self, turn: Turn | None = None) -> list[Moment]:
        """What a turn, the last unless one is named, told while it went on."""
        turn = turn or self.turns[-1]
        listener = turn.agent.listener()
        with self.output(turn).open("rb") as lines:
            return [moment for line in lines for moment in listener.hear(line)]

    def interrupted(self, turn: Turn) -> Session | None:
        """What could be gone on with."""
        return turn.agent.session(turn.task, self.output(turn))

    async def read(self, path: str) -> str:
        """A file of the branch."""
        return (await self.workspace.read(self.branch, path)).decode()

    async def fork(self, id: str) -> "AgentStage":
        """The same session on a copy of the files."""
        await self.workspace.snapshot(self.branch)
        child = await self.workspace.fork(self.branch, id=id)
        return AgentStage(self.home, self.workspace, child, self.boxed, self.private)

    def place(self, name: str = "") -> str:
        """Where the agent finds its private directory."""
        return f"{self.workspace.inside(str(self.private))}/{name}"

    def bell(self, name: str = "bell") -> "Bell":
        """Something an agent's tool can ring: `echo > $TMPDIR/bell`."""
        path = self.private / "tmp" / name
        os.mkfifo(path)
        path.chmod(0o666)
        return Bell(path)

    def files_with(self, secret: str) -> list[str]:
        """Every file of the store that holds a text."""
        every = (Path(folder, name) for folder, _, names in os.walk(self.home.state) for name in names)
        return [str(file) for file in every if file.is_file() and secret.encode() in file.read_bytes()]


class Bell:
    """A fifo: the ringing of a process is an event for us."""

    def __init__(self, path: Path) -> None:
        self._fifo = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def rung(self) -> None:
        """Wait until somebody wrote to it."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._fifo, heard.set)
        try:
            await asyncio.wait_for(heard.wait(), PATIENCE_S)
        finally:
            loop.remove_reader(self._fifo)
            os.close(self._fifo)


def processes(word: str) -> dict[int, list[str]]:
    """Every process on this machine that has a word in its command line, ourselves not counted."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word in one for one in words):
                found[int(entry.name)] = words
    return found


def kill(program: str, word: str, number: signal.Signals) -> None:
    """Send a signal to the one process of that program that has a word in its command line."""
    (process,) = [pid for pid, words in processes(word).items() if words[0] == program]
    os.kill(process, number)


@asynccontextmanager
async def staged(directory: Path, *, boxed: bool, files: dict[str, str] | None = None) -> AsyncIterator[AgentStage]:
    """A store below the directory with one branch that holds these files."""
    directory.chmod(0o777)
    overrides = () if boxed else ('sandbox.rung="plain"',)
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory), "RESOLVENT_HOME": str(directory / "state")}
    home = Home.of(directory, environ=environ, overrides=overrides)
    try:
        if boxed and (await home.rung()).kind != "namespaces":
            pytest.skip("no walls of namespaces on this machine")
        workspace = await home.workspace()
        change = await _commit(Git((await home.git_repository()).path), files or {"README.md": "hello\n"})
        branch = await workspace.root(change, id="branch")
        yield AgentStage(home, workspace, branch, boxed, Path(home.private_directory("session")))
    except NoSandbox as error:
        pytest.skip(str(error))
    finally:
        await home.close()


async def _commit(git: Git, files: dict[str, str]) -> Change:
    said = "commit refs/heads/staged\ncommitter someone <someone> 1700000000 +0000\ndata 4\nmade\n"
    for path, content in files.items():
        said += f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}\n"
    await git("fast-import", "--quiet", "--force", input=said.encode(), env=WHO)
    commit = (await git("rev-parse", "refs/heads/staged")).decode().strip()
    tree = (await git("rev-parse", f"{commit}^{{tree}}")).decode().strip()
    return Change(commit=commit, tree=tree)
