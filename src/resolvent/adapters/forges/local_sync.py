"""Bring the user's checkout into the local forge. The checkout is only read, as data: no hook or filter of it runs."""

import shutil
import tempfile
from pathlib import Path
from shlex import quote

from resolvent.adapters.forges.local_git import LOCAL, SERVE, Refs, branch_ref
from resolvent.adapters.git import Git
from resolvent.domain.subject import Synced
from resolvent.errors import ForgeDown, GitError, UsageError

# Looking into a submodule would run git with the submodule's own configuration.
_COMPARE = ("diff", "--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory")


async def sync(refs: Refs, repository: Path) -> Synced:
    """Fast-forward the forge to the checkout's default branch; UsageError when there is none, or it diverged."""
    root = checkout_root(repository)
    tips = await checkout_tips(refs.git, root)
    branch = await _default(refs, root, tips)
    ref, theirs = branch_ref(branch), tips[branch_ref(branch)]
    ours = (await refs.read()).get(ref)
    behind = False
    if ours != theirs:
        behind = not await _bring(refs, root, ref=ref, theirs=theirs, ours=ours)
    if branch != await refs.default_branch():
        await refs.git("symbolic-ref", "HEAD", ref)
    dirty = await is_dirty(refs.git, root, commit=theirs if tips["HEAD"] == theirs else "")
    return Synced(branch=branch, commit=ours if behind and ours else theirs, dirty=dirty, behind=behind)


def checkout_root(repository: Path) -> Path:
    place = repository.absolute()
    if not place.is_dir():
        raise UsageError(f"{place} is not a directory", hint=f"git clone URL {quote(str(place))}")
    for root in (place, *place.parents):
        if (root / ".git").exists() or ((root / "HEAD").is_file() and (root / "objects").is_dir()):
            return root
    at = quote(str(place))
    raise UsageError(
        f"{place} is not a git repository",
        hint=f"git init {at} && git -C {at} add --all && git -C {at} commit -m 'first commit'",
    )


async def checkout_tips(git: Git, root: Path) -> dict[str, str]:
    """The branches of the checkout; `HEAD` with its commit, and `ref: HEAD` with the branch it names."""
    try:
        wanted = (str(root), "HEAD", "refs/heads/*")
        said = await git("ls-remote", "--symref", f"--upload-pack={SERVE}", *wanted, env=LOCAL)
    except GitError as error:
        hint = f"git -C {quote(str(root))} status"
        raise UsageError(f"{root} cannot be read by git: {error.stderr.splitlines()[0]}", hint=hint) from error
    tips = {}
    for line in said.decode("utf-8", "surrogateescape").splitlines():
        value, name = line.split("\t", 1)
        tips["ref: HEAD" if value.startswith("ref: ") else name] = value.removeprefix("ref: ")
    if not tips:
        at = quote(str(root))
        raise UsageError(
            f"{root} has no commits", hint=f"git -C {at} add --all && git -C {at} commit -m 'first commit'"
        )
    return tips


async def _default(refs: Refs, root: Path, tips: dict[str, str]) -> str:
    named = tips.get("ref: HEAD", "")
    # A head of ours that someone looks at is not what new work is based on.
    if named in tips and not named.startswith("refs/heads/resolvent/"):
        return named.removeprefix("refs/heads/")
    for branch in (await refs.default_branch(), "main", "master"):
        if branch_ref(branch) in tips:
            return branch
    raise UsageError(
        f"{root} is on no branch, and has neither main nor master", hint=f"git -C {quote(str(root))} switch -c main"
    )


async def _bring(refs: Refs, root: Path, *, ref: str, theirs: str, ours: str | None) -> bool:
    """Fetch the checkout's commit and move our branch to it; False when ours is ahead and stays."""
    held = f"refs/resolvent/checkout/{theirs}"
    arguments = ("--quiet", "--no-tags", "--no-write-fetch-head", f"--upload-pack={SERVE}")
    try:
        await refs.git("fetch", *arguments, str(root), f"+{theirs}:{held}", env=LOCAL)
    except GitError as error:
        hint = f"git -C {quote(str(root))} fsck"
        raise UsageError(f"{root} cannot be fetched: {error.message}", hint=hint) from error
    if held not in await refs.read():
        # Git leaves the ref out, and says nothing, when the history ends early.
        raise UsageError(f"{root} is a shallow clone", hint=f"git -C {quote(str(root))} fetch --unshallow")
    ahead = ours is None or await refs.contains(theirs, ours)
    if not ahead and ours is not None and not await refs.contains(ours, theirs):
        branch, at = ref.removeprefix("refs/heads/"), quote(str(root))
        fetch = f"git -C {at} fetch {quote(str(refs.git.git_dir))} {quote(branch)}"
        raise UsageError(
            f"{branch} of {root} and of the local forge have diverged", hint=f"{fetch} && git -C {at} merge FETCH_HEAD"
        )
    move = ("update " + ref, theirs, ours or "0" * len(theirs)) if ahead else ()
    try:
        await refs.git("update-ref", "-z", "--stdin", input="\0".join((*move, "delete " + held, theirs, "")).encode())
    except GitError as error:
        raise ForgeDown(f"{ref} moved while it was brought up to date: {error.message}", hint="try again") from error
    return ahead


async def is_dirty(git: Git, root: Path, *, commit: str) -> bool:
    """Compare the files with a copy of the checkout's index under our own configuration; in doubt it is dirty."""
    place = root / ".git"
    if place.is_file():
        place = root / place.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("gitdir:").strip()
    if not place.is_dir():
        return False
    with tempfile.TemporaryDirectory(prefix="resolvent-") as scratch:
        index = Path(scratch) / "index"
        try:
            shutil.copyfile(place / "index", index)
            env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(root)}
            await git(*_COMPARE, *filter(None, [commit]), env=env)
            excluded = [f"--exclude-from={file}" for file in [place / "info" / "exclude"] if file.is_file()]
            return bool(await git(*_UNTRACKED, *excluded, env=env))
        except (GitError, OSError):
            return True
