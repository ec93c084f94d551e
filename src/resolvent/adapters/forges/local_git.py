"""The git half of the local forge: branches, exact heads and merge commits in `forge.git`."""

from collections.abc import Mapping
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.domain.change import Change
from resolvent.domain.subject import PullRequest
from resolvent.errors import ForgeDown, ForgeRefused, GitError, HeadMoved

NONE = "0" * 40
# The other end of a local transfer is a git of its own that gets no `-c` of ours. Nothing it serves is executed, so
# whose directory it is does not matter.
SERVE = "git -c 'safe.directory=*' upload-pack"
RECEIVE = "git -c 'safe.directory=*' -c receive.fsckObjects=true receive-pack"
LOCAL = {"GIT_ALLOW_PROTOCOL": "file"}

_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Resolvent"), ("EMAIL", "resolvent@localhost"))
}
_TRIES = 5


def branch_ref(branch: str) -> str:
    """The ref of a branch; what cannot be one is refused."""
    if not branch or branch.startswith("-") or "\0" in branch:
        raise ForgeRefused(f"{branch!r} cannot be the name of a branch")
    return f"refs/heads/{branch}"


def merged_ref(number: int) -> str:
    """Where the merge commit of a pull request is kept: it exists if and only if the pull request is merged."""
    return f"refs/resolvent/merged/{number}"


def last_head_ref(number: int) -> str:
    """Where the head of a closed or merged pull request is kept, whatever becomes of its branch."""
    return f"refs/resolvent/last-head/{number}"


class Refs:
    """What `forge.git` points to, and the only ways to move it."""

    def __init__(self, git: Git) -> None:
        self.git = git

    async def read(self) -> dict[str, str]:
        """Every ref that matters, as it is now: name → commit."""
        out = await self._answer("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", "refs/resolvent/")
        pairs = (line.split(" ", 1) for line in out.decode("utf-8", "surrogateescape").splitlines())
        return {name: commit for commit, name in pairs}

    async def default_branch(self) -> str:
        """The branch that HEAD names."""
        return (await self._answer("symbolic-ref", "HEAD")).decode().strip().removeprefix("refs/heads/")

    async def contains(self, whole: str, part: str) -> bool:
        """Everything of `part` is in the history of `whole`."""
        return not await self._answer("rev-list", "--max-count=1", part, f"^{whole}")

    async def holds(self, commit: str) -> bool:
        """The commit is here, on a branch or not."""
        return (await self._answer("cat-file", "--batch-check", input=commit.encode())).split()[1:2] == [b"commit"]

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
        await self._answer("update-ref", last_head_ref(number), commit)

    async def merge(self, pull: PullRequest, *, commit: str) -> None:
        """Merge exactly that commit and record it, or find it merged; HeadMoved when the branch is elsewhere."""
        base = branch_ref(pull.base)
        failure: GitError | None = None
        for _ in range(_TRIES):
            refs = await self.read()
            if merged_ref(pull.number) in refs:
                return
            if (now := refs.get(branch_ref(pull.head))) != commit:
                raise HeadMoved(f"{pull.head} is at {now or 'nothing'}, not at {commit}")
            if (tip := refs.get(base)) is None:
                raise ForgeRefused(f"the base {pull.base} of #{pull.number} does not exist")
            merged = tip if await self.contains(tip, commit) else await self._merge_commit(pull, tip=tip, commit=commit)
            moves = (f"update {base}", merged, tip, f"verify {branch_ref(pull.head)}", commit)
            records = (f"create {merged_ref(pull.number)}", merged, f"update {last_head_ref(pull.number)}", commit, "")
            try:
                await self.git("update-ref", "-z", "--stdin", input="\0".join((*moves, *records, "")).encode())
            except GitError as error:
                # Base or head moved meanwhile: the next look tells which.
                failure = error
            else:
                return
        raise ForgeDown(f"#{pull.number} could not be merged: {failure}", hint="try again") from failure

    async def _merge_commit(self, pull: PullRequest, *, tip: str, commit: str) -> str:
        try:
            asked = ("--write-tree", "--name-only", "--no-messages", "-z", tip, commit)
            tree = (await self.git("merge-tree", *asked)).decode().rstrip("\0\n")
        except GitError as error:
            paths = error.stdout.decode("utf-8", "backslashreplace").split("\0")[1:] if error.exit == 1 else ()
            why = ", ".join(filter(None, paths)) or error.message
            raise ForgeRefused(f"#{pull.number} does not merge cleanly onto {pull.base}: {why}") from error
        # The newer parent's date, so that merging the same again makes the same commit.
        dates = await self._answer("log", "--no-walk", "--format=%ct", tip, commit)
        at = {name: f"@{max(map(int, dates.split()))} +0000" for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}
        message = f"Merge pull request #{pull.number} from {pull.head}\n\n{pull.title}\n".encode()
        made = await self._answer("commit-tree", tree, "-p", tip, "-p", commit, "-F", "-", input=message, env=_WHO | at)
        return made.decode().strip()

    async def _answer(self, *args: str, input: bytes | None = None, env: Mapping[str, str] = {}) -> bytes:
        try:
            return await self.git(*args, input=input, env=env)
        except GitError as error:
            raise ForgeDown(f"forge.git: {error.message}", hint="resolvent doctor", stderr=error.stderr) from error
