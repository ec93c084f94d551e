"""Where the workspace contract is played: a trusted repository, and commits made to measure."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.copy import CopyWorkspace
from resolvent.adapters.workspace.repository import TrustedRepository
from resolvent.domain.change import Change
from resolvent.domain.job import Branch
from resolvent.ports import Workspace


class Exporting(Workspace, Protocol):
    """A workspace that also names what its last export left out."""

    def ignored(self, branch: Branch) -> tuple[str, ...]: ...


ADAPTERS: dict[str, Callable[[Path], Exporting]] = {"copy": CopyWorkspace}
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

    state: Path
    workspace: Exporting
    repository: TrustedRepository
    canary: Path

    @property
    def git(self) -> Git:
        return Git(self.repository.path)

    async def commit(self, files: Mapping[Name, Node], *, parent: Change | None = None) -> Change:
        """A commit that holds exactly these files."""
        rows = []
        for name, (mode, content) in files.items():
            oid = content.strip()
            if mode != "160000":
                oid = (await self.git("hash-object", "-w", "--stdin", "--no-filters", input=content)).strip()
            rows.append(b"%s %s\t%s\0" % (mode.encode(), oid, os.fsencode(name)))
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
        env = {"GIT_INDEX_FILE": str(self.state / "test-index"), "GIT_WORK_TREE": str(self.workspace.path(branch))}
        (self.state / "test-index").unlink(missing_ok=True)
        await self.git("read-tree", branch.commit, env=env)
        await self.git("add", "-A", ".", env=env | {"GIT_LITERAL_PATHSPECS": "0"})
        return (await self.git("write-tree", env=env)).decode().strip()

    def plant(self, name: str = "canary.sh") -> Path:
        """A program that leaves a canary when anybody runs it."""
        program = self.canary.with_name(name)
        program.write_text(f"#!/bin/sh\ntouch '{self.canary}'\ncat\n")
        program.chmod(0o755)
        return program


async def staged(adapter: str, directory: Path) -> Stage:
    state = directory / "state"
    repository = await TrustedRepository.open(state / "repo.git")
    return Stage(state, ADAPTERS[adapter](state), repository, directory / "canary")


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


async def agent(cwd: Path, *command: str) -> str:
    """What an agent's own command prints inside its branch."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = await asyncio.to_thread(subprocess.run, command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
