"""The git half of the local forge: branches, exact heads and merge commits in `forge.git`."""

from collections.abc import Mapping
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.git_refs import refs_of
from resolvent.domain.change import Change
from resolvent.errors import ForgeDown, ForgeRefused, GitError, HeadMoved

NONE = "0" * 40
# The other end of a local transfer is a git of its own that gets no `-c` of ours. Nothing it serves is executed, so
# whose directory it is does not matter.
SERVE = "git -c 'safe.directory=*' upload-pack"
RECEIVE = "git -c 'safe.directory=*' -c receive.fsckObjects=true receive-pack"
LOCAL = {"GIT_ALLOW_PROTOCOL": "file"}

WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Resolvent"), ("EMAIL", "resolvent@localhost"))
}


def branch_ref(branch: str) -> str:
    """The ref of a branch; what cannot be one is refused."""
    if not branch or branch.startswith("-") or "\0" in branch:
        raise ForgeRefused(f"{branch!r} cannot be the name of a branch")
    return f"refs/heads/{branch}"


def merged_ref(number: int) -> str:
    """Where the merge commit of a pull request is kept: it exists if and only if the pull request is merged."""
    return f"refs/resolvent/merged/{number}"


def merged_onto_ref(number: int) -> str:
    """Where the base was when a pull request was merged onto it."""
    return f"refs/resolvent/merged-onto/{number}"


def last_head_ref(number: int) -> str:
    """Where the head of a closed or merged pull request is kept, whatever becomes of its branch."""
    return f"refs/resolvent/last-head/{number}"


class Refs:
    """What `forge.git` points to, and the only ways to move it."""

    def __init__(self, git: Git) -> None:
        self.git = git

    async def read(self) -> dict[str, str]:
        """Every ref that matters, as it is now: name → commit."""
        try:
            return await refs_of(self.git, "refs/heads/", "refs/resolvent/")
        except (GitError, OSError) as error:
            raise ForgeDown(f"forge.git: {error}", hint="resolvent doctor") from error

    async def default_branch(self) -> str:
        """The branch that HEAD names."""
        return (await self.answer("symbolic-ref", "HEAD")).decode().strip().removeprefix("refs/heads/")

    async def contains(self, whole: str, part: str) -> bool:
        """Everything of `part` is in the history of `whole`."""
        return not await self.answer("rev-list", "--max-count=1", part, f"^{whole}")

    async def holds(self, commit: str) -> bool:
        """The commit is here, on a branch or not."""
        return (await self.answer("cat-file", "--batch-check", input=commit.encode())).split()[1:2] == [b"commit"]

    async def fetch(self, into: Path, commit: str) -> None:
        """Bring a commit with its history into another repository of ours, and keep it there."""
        arguments = ("--quiet", "--no-tags", "--no-write-fetch-head", f"--upload-pack={SERVE}")
        try:
            await Git(into)("fetch", *arguments, str(self.git.git_dir), f"+{commit}:refs/forge/{commit}", env=LOCAL)
        except GitError as error:
            raise ForgeDown(f"{commit[:10]} could not be fetched: {error.message}", stderr=error.stderr) from error

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        """Move a branch to the commit, only from `expect`; HeadMoved when it is elsewhere."""
        ref = branch_ref(head)
        lease = f"--force-with-lease={ref}:{expect or ''}"
        to = (f"--receive-pack={RECEIVE}", lease, str(self.git.git_dir), f"{change.commit}:{ref}")
        try:
            await Git(source)("push", "--quiet", "--porcelain", "--no-verify", *to, env=LOCAL)
        except GitError as error:
            now = (await self.read()).get(ref)
            # A push of the same commit may have been faster than ours.
            if now == change.commit:
                return
            if now != expect:
                raise HeadMoved(f"{head} is at {now or 'nothing'}, not at {expect or 'nothing'}") from error
            raise ForgeRefused(f"{change} was not accepted as {head}: {error.message}", stderr=error.stderr) from error

    async def keep_head(self, number: int, commit: str) -> None:
        """Remember the head of a pull request that is about to be closed."""
        await self.answer("update-ref", last_head_ref(number), commit)

    async def delete(self, branch: str, *, expect: str) -> None:
        """Remove a branch that is at that commit, or gone; HeadMoved when it is elsewhere."""
        ref = f"refs/heads/{branch}"
        if (now := (await self.read()).get(ref)) is None:
            return
        if now == expect:
            try:
                await self.git("update-ref", "-z", "--stdin", input=f"delete {ref}\0{expect}\0".encode())
            except GitError as error:
                if (now := (await self.read()).get(ref)) == expect:
                    raise ForgeDown(f"{branch} could not be removed: {error.message}", hint="try again") from error
        if now not in (None, expect):
            raise HeadMoved(f"{branch} is at {now}, not at {expect}")

    async def answer(self, *args: str, input: bytes | None = None, env: Mapping[str, str] = {}) -> bytes:
        """What git says on `forge.git`; ForgeDown when it fails."""
        try:
            return await self.git(*args, input=input, env=env)
        except GitError as error:
            raise ForgeDown(f"forge.git: {error.message}", hint="resolvent doctor", stderr=error.stderr) from error
