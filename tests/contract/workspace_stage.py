"""Where the workspace contract is played: a trusted repository, and commits made to measure."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from tests.contract.boxed import OBJECTS, boxed, trouble

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.confine import Walls
from resolvent.adapters.workspace.copy import CopyWorkspace
from resolvent.adapters.workspace.lodger import jobs_user
from resolvent.adapters.workspace.overlay import OverlayWorkspace
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.domain.change import Change
from resolvent.domain.job import Branch, Files, Job
from resolvent.ports import Workspace

T = TypeVar("T")

BWRAP = shutil.which("bwrap") or ""

Running = Callable[[str], bool]


async def _copy(state: Path, running: Running) -> Workspace:
    return CopyWorkspace(state, running=running)


async def _overlay(state: Path, running: Running) -> Workspace:
    if trouble():
        pytest.skip(trouble())
    walls = Walls(kind="namespaces", bwrap=BWRAP, user=jobs_user(state))
    return await OverlayWorkspace.open(state, sandbox=state / "sandbox", walls=walls, running=running)


ADAPTERS: dict[str, Callable[[Path, Running], Awaitable[Workspace]]] = {"copy": _copy, "overlay": _overlay}
WHO = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
WHEN = {f"GIT_{role}_DATE": "@1700000000 +0000" for role in ("AUTHOR", "COMMITTER")}

Node = tuple[str, bytes]
Name = str | bytes


def text(content: str) -> Node:
    return "100644", content.encode()


def script(content: str) -> Node:
    return "100755", content.encode()


def link(target: str) -> Node:
    return "120000", target.encode()


def submodule(commit: str) -> Node:
    return "160000", commit.encode()


@dataclass
class Stage:
    """A trusted repository and a workspace over it."""

    adapter: str
    state: Path
    workspace: Workspace
    repository: TrustedRepository
    canary: Path
    # The jobs that run right now, as far as the workspace is told.
    running: set[str] = field(default_factory=set)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def git(self) -> Git:
        return Git(self.repository.path)

    async def again(self) -> "Stage":
        """The same, as another process has it."""
        return await staged(self.adapter, self.canary.parent)

    async def close(self) -> None:
        """Let go of what the workspace holds open."""
        if isinstance(self.workspace, OverlayWorkspace):
            await self.workspace.close()

    def leftovers(self) -> list[str]:
        """What was begun and not cleared away."""
        places = [self.state / "scratch", self.state / "sandbox/scratch", self.state / "sandbox/trash"]
        return [str(left) for place in places if place.is_dir() for left in place.iterdir()]

    async def entered(self, branch: Branch, *, id: str = "") -> Job:
        """A job that was let into the branch."""
        job = Job(id=id or f"job-{next(self._numbers)}", argv=("true",))
        private = self.canary.with_name("private")
        private.mkdir(exist_ok=True)
        return await self.workspace.enter(branch, job, private=str(private), unsafe=True)

    async def inside(self, branch: Branch, function: Callable[[Path], T]) -> T:
        """What a function returns or raises that a job calls with the place where its branch is."""
        job = await self.entered(branch)
        self.running.add(job.id)
        try:
            if job.box is None:
                return function(Path(job.cwd))
            objects = self.repository.upstream / "objects"
            return boxed(job.box.files, function, user=job.box.user, objects=objects, outside=self.canary.parent)
        finally:
            self.running.discard(job.id)

    async def place(self, branch: Branch) -> Path:
        """Where the host finds what the next job in a branch writes."""
        job = await self.entered(branch)
        files = job.box.files if job.box else Files(tree=job.cwd)
        return Path(files.layers, files.upper, "up") if files.upper else Path(files.tree)

    async def files(self, branch: Branch) -> dict[bytes, Node]:
        """Every file and link in a branch."""
        return await self.inside(branch, snapshot)

    async def agent(self, branch: Branch, *command: str) -> str:
        """What an agent's own command prints inside its branch."""
        return await self.inside(branch, lambda work: agent(work, *command))

    async def commit(self, files: Mapping[Name, Node], *, parent: Change | None = None) -> Change:
        """A commit that holds exactly these files."""
        said = b"".join(
            b"blob\nmark :%d\ndata %d\n%s\nget-mark :%d\n" % (mark, len(content), content, mark)
            for mark, (mode, content) in enumerate(files.values(), 1)
        )
        oids = (await self.git("fast-import", "--quiet", input=said)).split()
        rows = [
            b"%s %s\t%s\0" % (mode.encode(), content if mode == "160000" else oid, os.fsencode(name))
            for (name, (mode, content)), oid in zip(files.items(), oids, strict=True)
        ]
        index = {"GIT_INDEX_FILE": str(self.state / "test-index")}
        (self.state / "test-index").unlink(missing_ok=True)
        await self.git("update-index", "-z", "--index-info", input=b"".join(rows), env=index)
        tree = (await self.git("write-tree", "--missing-ok", env=index)).decode().strip()
        return await self.commit_of(tree, parent=parent)

    async def commit_of(self, tree: str, *, parent: Change | None = None) -> Change:
        onto = ("-p", parent.commit) if parent else ()
        made = await self.git("commit-tree", tree, *onto, "-m", "by hand", env=WHO | WHEN)
        return Change(commit=made.decode().strip(), tree=tree)

    async def tree(self, change: Change) -> dict[bytes, Node]:
        """What a commit holds, with the bytes of every file."""
        held = {}
        for row in (await self.git("ls-tree", "-r", "-z", "--full-tree", change.commit)).split(b"\0")[:-1]:
            about, _, path = row.partition(b"\t")
            mode, kind, oid = about.decode().split()
            held[path] = (mode, await self.git("cat-file", "blob", oid) if kind == "blob" else oid.encode())
        return held

    async def as_git_would(self, branch: Branch) -> str:
        """The tree of `git add -A` over a friendly branch."""
        ours = self.repository.path / "objects"
        return await self.inside(branch, lambda work: _added(work, branch.commit, ours))

    def plant(self, name: str = "canary.sh") -> Path:
        """A program that leaves a canary when anybody runs it."""
        program = self.canary.with_name(name)
        program.write_text(f"#!/bin/sh\ntouch '{self.canary}'\ncat\n")
        program.chmod(0o755)
        return program


async def staged(adapter: str, directory: Path) -> Stage:
    # What runs in a branch of root's is somebody else, and leaves its canary there.
    directory.chmod(0o777)
    state = directory / "state"
    repository = await TrustedRepository.open(state / "repo.git")
    running: set[str] = set()
    workspace = await ADAPTERS[adapter](state, running.__contains__)
    return Stage(adapter, state, workspace, repository, directory / "canary", running)


def snapshot(top: Path) -> dict[bytes, Node]:
    """Every file and link below a directory, its own `.git` left out, with mode and bytes."""
    found: dict[bytes, Node] = {}
    for directory, names, files in os.walk(os.fsencode(top)):
        if directory == os.fsencode(top) and b".git" in names:
            names.remove(b".git")
        for name in (*names, *files):
            path = os.path.join(directory, name)
            inside = os.path.relpath(path, os.fsencode(top))
            if os.path.islink(path):
                found[inside] = ("120000", os.readlink(path))
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[inside] = (f"100{os.stat(path).st_mode & 0o777:o}", file.read())
    return found


def agent(work: Path, *command: str) -> str:
    """What an agent's own command prints inside its branch."""
    env = {"PATH": os.environ["PATH"], "HOME": str(work.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _added(work: Path, commit: str, objects: Path) -> str:
    """The tree of all that is in a work tree, made in a repository of its own that borrows our objects."""
    borrowed = objects if os.access(objects, os.R_OK | os.X_OK) else OBJECTS
    with tempfile.TemporaryDirectory() as scratch:
        git = Git(Path(scratch) / "repo.git")
        kind = "sha256" if len(commit) == 64 else "sha1"
        env = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_WORK_TREE": str(work),
            # What is not upstream lies in the branch itself, which is a friendly one.
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{borrowed}:{work}/.git/objects",
            "GIT_LITERAL_PATHSPECS": "0",
        }
        git.stream("init", "--quiet", "--bare", f"--object-format={kind}", read=lambda said: said.read())
        for command in (("read-tree", commit), ("add", "-A", ".")):
            git.stream(*command, env=env, read=lambda said: said.read())
        return git.stream("write-tree", env=env, read=lambda said: said.read()).decode().strip()
