"""Where the forge contract is played: a forge with one commit, and what other people and CI do there."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.change import Change
from resolvent.domain.subject import Comment, Permission, PullRequest
from resolvent.ports import Forge

NOBODY = "0123456789abcdef0123456789abcdef01234567"
WHO = {f"GIT_{role}_{what}": "tester" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Stage(Protocol):
    """A forge with one commit on its default branch, and what other people and CI do there."""

    forge: Forge
    source: Path
    base: Change

    def later(self, seconds: float) -> None:
        """Let time pass there."""

    async def knows(self, login: str, permission: Permission) -> None:
        """There is somebody with that login who may do that much."""

    async def says(self, author: str, target: str, body: str) -> None: ...

    async def closes(self, target: str) -> None: ...

    async def asked(self, pull: PullRequest) -> tuple[str, ...]:
        """Who is asked for a review, sorted."""

    async def reactions(self, to: Comment | str) -> tuple[tuple[str, str], ...]:
        """Who reacted how to a comment or a target, oldest first."""

    async def requires(self, *checks: str) -> None: ...

    async def reports(self, commit: str, check: str, state: str, log: str = "") -> None: ...

    async def answers_reruns(self, state: str) -> None:
        """Be CI until cancelled: report this for every rerun that is asked for."""


async def made(source: Path, files: Mapping[str, str], parent: Change | None = None, message: str = "work") -> Change:
    """A commit in our repository, with the parent's files and these over them."""
    git = Git(source)
    listed = (await git("ls-tree", "-z", parent.commit)).split(b"\0") if parent else []
    entries = {line.split(b"\t")[1]: line for line in listed if line}
    for name, text in files.items():
        blob = (await git("hash-object", "-w", "--stdin", input=text.encode())).strip()
        entries[name.encode()] = b"100644 blob " + blob + b"\t" + name.encode()
    tree = (await git("mktree", "-z", input=b"".join(line + b"\0" for line in entries.values()))).decode().strip()
    onto = ("-p", parent.commit) if parent else ()
    date = {"GIT_AUTHOR_DATE": "@1700000000 +0000", "GIT_COMMITTER_DATE": "@1700000000 +0000"}
    commit = await git("commit-tree", tree, *onto, "-m", message, env=WHO | date)
    return Change(commit=commit.decode().strip(), tree=tree)


class PassingClock:
    """The time of this machine, and whatever a test let pass besides."""

    frozen_at: float | None = None

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return time.time() + self.passed


class LocalStage:
    def __init__(self, forge: LocalForge, source: Path, base: Change, store: Store, clock: PassingClock) -> None:
        self.forge: LocalForge = forge
        self.source = source
        self.base = base
        self.store = store
        self.clock = clock

    @classmethod
    async def set(cls, store: Store, directory: Path) -> "LocalStage":
        source = directory / "repo.git"
        await Git.init_bare(source)
        base = await made(source, {"a.txt": "one\n"})
        clock = PassingClock()
        forge = await LocalForge.open(store, directory / "state", trusted_logins=("maintainer",), clock=clock)
        await forge.push(base, source=source, head="main", expect=None)
        return cls(forge, source, base, store, clock)

    def later(self, seconds: float) -> None:
        self.clock.passed += seconds

    async def knows(self, login: str, permission: Permission) -> None:
        sql = "INSERT INTO forge_accounts (login, kind, permission) VALUES (:login, 'User', :permission)"
        await self.store.write(sql, login=login, permission=permission)

    async def says(self, author: str, target: str, body: str) -> None:
        await self.forge.comment(target, body, author=author)

    async def closes(self, target: str) -> None:
        await self.forge.set_state(target, "closed")

    async def asked(self, pull: PullRequest) -> tuple[str, ...]:
        sql = "SELECT login FROM forge_reviewers WHERE number = :number"
        return tuple(sorted(row["login"] for row in await self.store.read(sql, number=pull.number)))

    async def reactions(self, to: Comment | str) -> tuple[tuple[str, str], ...]:
        number = int((to if isinstance(to, str) else to.target).partition("-")[2])
        comment = 0 if isinstance(to, str) else int(to.id)
        sql = "SELECT login, content FROM forge_reactions WHERE number = :number AND comment = :comment ORDER BY id"
        rows = await self.store.read(sql, number=number, comment=comment)
        return tuple((row["login"], row["content"]) for row in rows)

    async def requires(self, *checks: str) -> None:
        for name in checks:
            await self.forge.require_check(name)

    async def reports(self, commit: str, check: str, state: str, log: str = "") -> None:
        await self.forge.report_check(commit, check, state=state, log=log)

    async def answers_reruns(self, state: str) -> None:
        async for check in self.forge.reruns():
            await self.forge.report_check(check.commit, check.name, state=state)


async def proposed(
    stage: Stage, head: str = "resolvent/issue-1", *, text: str = "two\n", body: str = ""
) -> PullRequest:
    """An open pull request whose head changes a.txt."""
    change = await made(stage.source, {"a.txt": text}, stage.base)
    await stage.forge.push(change, source=stage.source, head=head, expect=None)
    return await stage.forge.open_pull_request(head=head, base="main", title="Change a", body=body)


def head_change(pull: PullRequest) -> Change:
    return Change(commit=pull.head_commit, tree=pull.head_commit)
