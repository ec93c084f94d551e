"""A stage for playbooks: a small real repository, the real engine and forge, and agents that play given scenes.

stage = await Stage.set_up(tmp_path)
played = await stage.play([scene("analyze", "VERDICT=INVALID")])
assert played.outcome == "declined"
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resolvent.adapters.forges.local import LocalForge
from resolvent.app import App
from resolvent.domain.entry import Entry
from resolvent.domain.subject import Comment, Issue
from resolvent.engine.world import World
from resolvent.ports import Clock
from resolvent.submissions import Submission
from resolvent.testing.demo_story import Scene, hooks_of, write_story
from resolvent.working import Session

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub
    from resolvent.testing.rehearsal import Rehearsal

FILES = {"value.txt": "bad\n", "other.txt": "same\n", ".gitignore": "ignored/\n"}


def scene(step: str, say: str, **more: Any) -> Scene:
    """A scene of a story: what the agent of that step prints, and what else it does."""
    return {"step": step, "say": f"{say}\n", **more}


@dataclass(frozen=True)
class Played:
    """What came of a run, and what it did to the forge."""

    document: dict[str, Any]
    prompts: dict[str, str]
    starts: tuple[str, ...]

    @property
    def outcome(self) -> str:
        return str(self.document["outcome"])

    @property
    def steps(self) -> list[str]:
        """The verbs in the order they began, as `verb:name`."""
        return [step["step"] for step in self.document["steps"]]


class Stage:
    """One repository with its forge and state; any number of plays."""

    def __init__(
        self,
        directory: Path,
        *,
        project: Path | None = None,
        overrides: Sequence[str] = (),
        clock: Clock | None = None,
        rehearsal: "Rehearsal | None" = None,
    ) -> None:
        self.directory = directory
        self.rehearsal = rehearsal
        self._hub: Hub | None = None
        self.project = project or directory / "project"
        environ = {"PATH": os.environ["PATH"], "HOME": str(directory), "RESOLVENT_HOME": str(directory / "state")}
        story = directory / "story.json"
        agents = []
        for name in ("author", "reviewer"):
            agents += [f'agents.{name}.use="scripted"', f'agents.{name}.command=["{story}"]']
        defaults: tuple[str, ...] = (
            'agents.writer="author"',
            'agents.reader="reviewer"',
            "policy.status_comments=false",
        )
        if rehearsal:
            environ |= rehearsal.environment
            defaults += rehearsal.settings
        self.app = App.at(self.project, environ=environ, overrides=(*agents, *defaults, *overrides), clock=clock)

    @classmethod
    async def set_up(
        cls,
        directory: Path,
        *,
        files: dict[str, str] = FILES,
        overrides: Sequence[str] = (),
        rehearsal: "Rehearsal | None" = None,
    ) -> "Stage":
        """Make the repository and put its default branch on the forge: the local one, or one that is rehearsed on."""
        project = directory / "project"
        if not project.exists():
            await make_project(project, files)
        stage = cls(directory, overrides=overrides, rehearsal=rehearsal)
        await (await stage.hub()).sync(project)
        return stage

    @property
    def hooks(self) -> Path:
        """The directory that the agents share with a test."""
        return hooks_of(self.directory / "story.json")

    async def hub(self) -> LocalForge:
        """What is on the forge, for whoever plays the rest of the world there."""
        if self.rehearsal is None:
            return await self.app.home.local_forge()
        if self._hub is None:
            self._hub = await self.rehearsal.hub(clock=self.app.home.clock)
        return self._hub.forge

    async def issue(self, title: str = "The value is bad", body: str = "It should be good.") -> Issue:
        """An issue on the forge, written by somebody else."""
        made = await (await self.hub()).create_issue(title, body, author="customer")
        return await (await self.app.home.forge()).issue(str(made.number))

    async def submit(self, entry: Entry | None = None, **more: Any) -> str:
        """Queue a run on the entry, or on a new issue; returns its id."""
        if entry is None:
            entry = Entry(kind="issue", reference=str((await self.issue()).number))
        row, _ = await self.app.submit(Submission(entry=entry, **more))
        return row.id

    async def play(self, scenes: Sequence[Scene], *, entry: Entry | None = None, **more: Any) -> Played:
        """Submit and work until the run ended or waits."""
        write_story(self.directory / "story.json", list(scenes))
        return await self.go_on(await self.submit(entry, **more))

    async def go_on(
        self, run: str, *, scenes: Sequence[Scene] | None = None, adjust: Callable[[World], World] = lambda world: world
    ) -> Played:
        """Work until the run ended or waits, with another story if one is given."""
        if scenes is not None:
            write_story(self.directory / "story.json", list(scenes))
        await Session(self.app.home, adjust=adjust).follow(run)
        return await self.played(run)

    async def played(self, run: str) -> Played:
        """What the record and the agents' own log say now."""
        log = self.hooks / "log"
        starts = tuple(log.read_text(encoding="utf-8").splitlines()) if log.exists() else ()
        return Played(await self.app.document(run), await self.prompts(run), starts)

    async def prompts(self, run: str) -> dict[str, str]:
        """What each agent job was asked, by step; the last one of a step counts."""
        jobs = await (await self.app.home.journal()).jobs(run)
        place = self.app.home.state / "jobs"
        return {job.name: (place / job.id / "stdin").read_text(encoding="utf-8") for job in jobs if job.agent}

    async def comments(self, target: str) -> tuple[Comment, ...]:
        """What stands on an issue or a pull request."""
        return await (await self.app.home.forge()).comments(target)

    async def says(self, author: str, target: str, body: str) -> Comment:
        """Somebody comments on an issue or a pull request."""
        made = await (await self.hub()).comment(target, body, author=author)
        return next(comment for comment in await self.comments(target) if comment.id == made.id)

    async def close(self) -> None:
        await self.app.home.close()
        if self._hub is not None:
            await self._hub.close()


async def make_project(project: Path, files: Mapping[str, str]) -> None:
    """A git repository of one commit, the same commit wherever and whenever it is made."""
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    await git(project, "init", "-q", "-b", "main")
    await git(project, "add", "-A")
    await git(project, "commit", "-q", "-m", "first")


async def git(directory: Path, *words: str) -> str:
    """Run git in a repository of the test's own; returns what it printed."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _WHO.items()},
    }
    process = await asyncio.create_subprocess_exec(
        "git", *words, cwd=directory, env=environ, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"git {' '.join(words)} failed in {directory}")
    return printed.decode().strip()


_WHO = {"NAME": "Tester", "EMAIL": "tester@example.invalid", "DATE": "2026-01-05T09:00:00Z"}
