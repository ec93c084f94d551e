"""Git to and from GitHub: over https, by a token that only git's environment holds, with nobody's configuration."""

import asyncio
import base64
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from resolvent.adapters.forges.github_api import Api
from resolvent.adapters.forges.github_place import GitHubPlace, is_branch, ref_parts
from resolvent.adapters.forges.local_git import branch_ref
from resolvent.adapters.forges.local_sync import checkout_root, checkout_tips, is_dirty
from resolvent.adapters.git import Git
from resolvent.adapters.git_refs import refs_of
from resolvent.domain.change import Change
from resolvent.domain.subject import Synced
from resolvent.errors import ForgeDown, ForgeRefused, GitError, HeadMoved, NotFound, ResolventError

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Faults that old and honest histories have; GitHub itself lets them in.
_OLD_FAULTS = ("badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode")
_NOT_THERE = re.compile(r"not our ref|couldn't find remote ref|no such ref", re.I)
_UNKNOWN = re.compile(r"repository '[^']*' not found|returned error: 404|Repository not found", re.I)
_WHO_ARE_YOU = re.compile(r"could not read Username|Authentication failed|returned error: 401|Invalid username", re.I)
_DOWN = re.compile(
    r"could not resolve|failed to connect|couldn't connect|connection (?:refused|timed out|reset|was reset)|timed out"
    r"|empty reply|RPC failed|hung up|early EOF|unexpected disconnect|too slow|recv failure|send failure|broken pipe"
    r"|returned error: (?:5\d\d|408|429)|server closed|TLS connection was|SSL_ERROR_SYSCALL|proxy|unexpected eof"
    r"|invalid index-pack output|bad line length|expected flush|protocol error",
    re.I,
)
# What is wrong on our side: the rest of what git says then is about the line that it cut.
_OURS = re.compile(r"bad object|src refspec|not a valid object", re.I)
_REFUSED = re.compile(r"^!\t.*\[remote rejected\] \((.*)\)$", re.M)
_CERTIFICATE = re.compile(r"certificate", re.I)
_MOVED = re.compile(r"returned error: 30\d|unable to update url base|redirect", re.I)
_MAX_SAID = 400
# A transfer waits for the network in one of the few threads that every git call shares.
_AT_ONCE = 2


class Remote:
    """The repository on GitHub as git sees it."""

    def __init__(self, api: Api, place: GitHubPlace) -> None:
        self._api = api
        self._where = api.where
        self._place = place
        self._transfers = asyncio.Semaphore(_AT_ONCE)
        self._settings = {
            f"http.{self._where.web}/.proxy": place.proxy,
            "http.sslVerify": "true",
            "http.lowSpeedLimit": "1000",
            "http.lowSpeedTime": "60",
            "fetch.fsckObjects": "true",
            **{f"fetch.fsck.{fault}": "warn" for fault in _OLD_FAULTS},
            **({"http.sslCAInfo": place.ca} if place.ca else {}),
        }

    async def head_of(self, branch: str) -> str | None:
        """The commit a branch is at now."""
        if not is_branch(branch):
            return None
        try:
            said = await self._api.get("GitRef", self._where.path("git", "ref", *ref_parts(branch)))
        except NotFound:
            return None
        except ForgeRefused as error:
            # So GitHub says of a repository without any commit.
            if error.details.get("status") != 409:
                raise
            return None
        return str(said.object_.sha)

    async def fetch(self, into: Path, ref: str) -> str:
        """Bring a branch or commit here and keep it under its own name; what is kept already is not asked for."""
        commit = await self.head_of(ref) or (ref if _COMMIT.fullmatch(ref) else None)
        if commit is None:
            raise self._unknown(ref)
        git, kept = Git(into), f"refs/forge/{commit}"
        if kept in await refs_of(git, kept):
            return commit
        try:
            await self._bring(git, f"+{commit}:{kept}")
        except GitError as error:
            if _NOT_THERE.search(error.stderr):
                raise self._unknown(ref) from error
            raise self._why(error, f"{commit[:10]} could not be fetched") from error
        return commit

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        """Move a branch to the commit, only from `expect`; HeadMoved when it is elsewhere."""
        if not is_branch(head):
            raise ForgeRefused(f"{head!r} cannot be the name of a branch")
        await self._move(Git(source), head, to=change.commit, expect=expect)

    async def delete(self, branch: str, *, expect: str) -> None:
        """Remove a branch that is at that commit; HeadMoved when it is elsewhere, gone already is fine."""
        now = await self.head_of(branch)
        if now is None:
            return
        if now != expect:
            raise HeadMoved(f"{branch} is at {now}, not at {expect}")
        with tempfile.TemporaryDirectory(prefix="resolvent-") as scratch:
            # Only git can remove it from exactly that commit, and it wants to be somewhere.
            await self._move(await Git.init_bare(Path(scratch) / "empty.git"), branch, to=None, expect=expect)

    async def remove(self, ref: str, *, at: str) -> None:
        """Remove any ref that is at that commit, in one step; ForgeRefused when it is elsewhere or gone."""
        with tempfile.TemporaryDirectory(prefix="resolvent-") as scratch:
            git = await Git.init_bare(Path(scratch) / "empty.git")
            removed = ("--quiet", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{at}")
            try:
                await self._transfer(git, "push", *removed, self._where.git, f":{ref}")
            except GitError as error:
                raise self._why(error, f"{ref} was not removed") from error

    async def sync(self, repository: Path, *, branch: str) -> Synced:
        """Nothing is brought: GitHub has it. How the checkout is, beside the branch as GitHub has it."""
        root = checkout_root(repository)
        commit = await self.head_of(branch)
        if commit is None:
            raise ForgeRefused(f"{self._where.repo} has no commits", hint=f"git push {self._where.page} HEAD:{branch}")
        with tempfile.TemporaryDirectory(prefix="resolvent-") as scratch:
            git = await Git.init_bare(Path(scratch) / "beside.git")
            tips = await checkout_tips(git, root)
            # The checkout's objects are read as data, under our own configuration.
            (git.git_dir / "objects" / "info" / "alternates").write_text(f"{_objects(root)}\n")
            dirty = await is_dirty(git, root, commit=tips.get("HEAD", ""))
            theirs = tips.get(branch_ref(branch), tips.get("HEAD", ""))
            behind = not await _holds(git, theirs, commit)
        return Synced(branch=branch, commit=commit, dirty=dirty, behind=behind)

    async def _move(self, git: Git, head: str, *, to: str | None, expect: str | None) -> None:
        ref = branch_ref(head)
        lease = f"--force-with-lease={ref}:{expect or ''}"
        moved = ("--quiet", "--porcelain", "--no-verify", lease, self._where.git, f"{to or ''}:{ref}")
        try:
            await self._transfer(git, "push", *moved)
        except GitError as error:
            # The answer may be lost, or a push of the same may have been faster than ours.
            now = await self.head_of(head)
            if now == to:
                return
            why = self._why(error, f"{to[:10] if to else 'the removal'} was not accepted as {head}")
            if now != expect and not why.details.get("auth") and not isinstance(why, NotFound):
                raise HeadMoved(f"{head} is at {now or 'nothing'}, not at {expect or 'nothing'}") from error
            raise why from error

    async def _bring(self, git: Git, what: str) -> None:
        """Fetch that, from where the repository is by now."""
        wanted = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        try:
            await self._transfer(git, *wanted, self._where.git, what)
        except GitError as error:
            if not _MOVED.search(error.stderr):
                raise
            # Where to is asked of the API and not of the one who led us on.
            now = str((await self._api.get("FullRepository", self._where.path())).full_name)
            await self._transfer(git, *wanted, replace(self._place, repo=now).where.git, what)

    async def _transfer(self, git: Git, *args: str) -> None:
        async with self._transfers:
            await git(*args, env=await self._environment())

    async def _environment(self) -> Mapping[str, str]:
        """All that git is told, and the token: in its environment, which only we can read."""
        token = base64.b64encode(f"x-access-token:{await self._api.token()}".encode()).decode()
        settings = {
            **self._settings,
            # The token would go along, to whichever host that leads.
            "http.followRedirects": "false",
            f"http.{self._where.web}/.extraHeader": f"Authorization: Basic {token}",
        }
        said = {"GIT_ALLOW_PROTOCOL": "https", "GIT_CONFIG_COUNT": str(len(settings))}
        for at, (name, value) in enumerate(settings.items()):
            said |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
        return said

    def _unknown(self, ref: str) -> NotFound:
        return NotFound(f"{self._where.repo} has no branch or commit {ref!r}", hint=f"git ls-remote {self._where.page}")

    def _why(self, error: GitError, what: str) -> ResolventError:
        """Who must act, by what git and the other end said."""
        said, repo = error.stderr, self._where.repo
        # What the server itself says comes first: sentences for people, and the reason beside a ref it refused.
        told = " ".join(
            line.removeprefix("remote:").strip() for line in said.splitlines() if line.startswith("remote:")
        )
        told += "".join(f" {why}" for why in _REFUSED.findall(error.stdout.decode("utf-8", "replace")))
        reason = self._api.clean(f"{what}: {told.strip() or error.message}")[:_MAX_SAID]
        if refused := self._told(told, reason):
            return refused
        if _WHO_ARE_YOU.search(said):
            return ForgeRefused(reason, hint="make a token with the scopes repo and workflow", auth=True)
        if _UNKNOWN.search(said):
            return NotFound(reason, hint=f"gh repo view {repo}")
        if "returned error: 403" in said:
            return ForgeRefused(reason, hint=f"gh repo view {repo} --json viewerPermission", auth=True)
        if _MOVED.search(said):
            return ForgeRefused(
                f"{what}: {repo} has moved", hint=f"gh repo view {repo} --json nameWithOwner", moved=True
            )
        if _CERTIFICATE.search(said):
            return ForgeRefused(reason, hint='set forge.ca = "/path/to/its/ca.pem"')
        kind = ForgeDown if _DOWN.search(said) and not _OURS.search(said) else ForgeRefused
        return kind(reason, stderr=self._api.clean(said)[-_MAX_SAID:])

    def _told(self, told: str, reason: str) -> ForgeRefused | None:
        """The refusals that GitHub has sentences of its own for."""
        repo = self._where.repo
        if "workflow" in told and "scope" in told:
            return ForgeRefused(reason, hint="gh auth refresh --scopes workflow", auth=True, scope="workflow")
        if "archived" in told:
            return ForgeRefused(reason, hint=f"gh repo unarchive {repo}", archived=True)
        if re.search(r"GH0\d\d|protected", told):
            return ForgeRefused(reason, hint=f"gh ruleset check --repo {repo}")
        if "denied" in told:
            return ForgeRefused(reason, hint=f"gh repo view {repo} --json viewerPermission", auth=True)
        return None


def _objects(root: Path) -> Path:
    """Where a checkout keeps its objects, be it a worktree or a submodule."""
    place = root / ".git"
    if place.is_file():
        place = root / place.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("gitdir:").strip()
    if not place.is_dir():
        place = root
    common = place / "commondir"
    if common.is_file():
        place = place / common.read_text(encoding="utf-8", errors="surrogateescape").strip()
    return (place / "objects").resolve()


async def _holds(git: Git, whole: str, part: str) -> bool:
    """Everything of `part` is in the history of `whole`; what is not even here is not."""
    try:
        return not await git("rev-list", "--max-count=1", part, f"^{whole}")
    except GitError:
        return False
