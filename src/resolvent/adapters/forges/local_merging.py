"""Merging on the local forge: by a merge commit, in one commit, or commit by commit; the same again makes the same."""

from dataclasses import dataclass

from resolvent.adapters.forges.local_git import WHO, Refs, branch_ref, last_head_ref, merged_onto_ref, merged_ref
from resolvent.domain.subject import MergeMethod, PullRequest
from resolvent.errors import ForgeDown, ForgeRefused, GitError, HeadMoved

_TRIES = 5


@dataclass(frozen=True)
class Merging:
    """How to merge: the method, and the message of the commit it makes where that is not the usual one."""

    method: MergeMethod = "merge"
    title: str = ""
    message: str | None = None


async def merge(refs: Refs, pull: PullRequest, *, commit: str, how: Merging | None = None) -> None:
    """Merge exactly that commit and record it, or find it merged; HeadMoved when the branch is elsewhere."""
    base, how = branch_ref(pull.base), how or Merging()
    failure: GitError | None = None
    for _ in range(_TRIES):
        known = await refs.read()
        if merged_ref(pull.number) in known:
            return
        if (now := known.get(branch_ref(pull.head))) != commit:
            raise HeadMoved(f"{pull.head} is at {now or 'nothing'}, not at {commit}")
        if (tip := known.get(base)) is None:
            raise ForgeRefused(f"the base {pull.base} of #{pull.number} does not exist")
        contained = await refs.contains(tip, commit)
        merged = tip if contained else await _WAYS[how.method](refs, pull, tip=tip, commit=commit, how=how)
        moves = (f"update {base}", merged, tip, f"verify {branch_ref(pull.head)}", commit)
        # A base that moved without the record of it was moved from there.
        kept = merged_onto_ref(pull.number) in known
        onto = () if kept else (f"update {merged_onto_ref(pull.number)}", tip, "")
        records = (f"create {merged_ref(pull.number)}", merged, f"update {last_head_ref(pull.number)}", commit, "")
        try:
            await refs.git("update-ref", "-z", "--stdin", input="\0".join((*moves, *onto, *records, "")).encode())
        except GitError as error:
            # Base or head moved meanwhile: the next look tells which.
            failure = error
        else:
            return
    raise ForgeDown(f"#{pull.number} could not be merged: {failure}", hint="try again") from failure


async def merged_tree(refs: Refs, tip: str, commit: str, *, what: str) -> str:
    """The tree of both together; ForgeRefused names the files in conflict."""
    try:
        asked = ("--write-tree", "--name-only", "--no-messages", "-z", tip, commit)
        return (await refs.git("merge-tree", *asked)).decode().rstrip("\0\n")
    except GitError as error:
        paths = error.stdout.decode("utf-8", "backslashreplace").split("\0")[1:] if error.exit == 1 else ()
        why = ", ".join(filter(None, paths)) or error.message
        raise ForgeRefused(f"{what}: {why}", conflict=True) from error


async def _joined(refs: Refs, pull: PullRequest, *, tip: str, commit: str, how: Merging) -> str:
    tree = await merged_tree(refs, tip, commit, what=f"#{pull.number} does not merge cleanly onto {pull.base}")
    title = how.title or f"Merge pull request #{pull.number} from {pull.head}"
    message = _said(title, pull.title if how.message is None else how.message)
    at = await _dates(refs, tip, commit)
    made = await refs.answer("commit-tree", tree, "-p", tip, "-p", commit, "-F", "-", input=message, env=WHO | at)
    return made.decode().strip()


async def _squashed(refs: Refs, pull: PullRequest, *, tip: str, commit: str, how: Merging) -> str:
    tree = await merged_tree(refs, tip, commit, what=f"#{pull.number} does not merge cleanly onto {pull.base}")
    message = _said(how.title or f"{pull.title} (#{pull.number})", how.message or "")
    at = await _dates(refs, tip, commit)
    made = await refs.answer("commit-tree", tree, "-p", tip, "-F", "-", input=message, env=WHO | at)
    return made.decode().strip()


async def replayed(refs: Refs, pull: PullRequest, *, tip: str, commit: str, how: Merging) -> str:
    """The commits that `commit` has and `tip` has not, one by one on top of `tip`; the last of them."""
    onto = tip
    listed = await refs.answer("rev-list", "--reverse", "--topo-order", "--parents", commit, f"^{tip}")
    for line in listed.decode().splitlines():
        one, *parents = line.split()
        if len(parents) != 1:
            raise ForgeRefused(
                f"#{pull.number} cannot be rebased: {one[:10]} has {len(parents)} parents", conflict=True
            )
        onto = await _on_top(refs, pull, onto=onto, one=one, parent=parents[0])
    return onto


async def _on_top(refs: Refs, pull: PullRequest, *, onto: str, one: str, parent: str) -> str:
    """One commit again on top of another, by its author; `onto` itself when it brings nothing new there."""
    beginning = await _dates(refs, onto, one)
    # A commit with the files of `onto` and the parent of `one`: what both have in common is then that parent.
    ours = await refs.answer("commit-tree", f"{onto}^{{tree}}", "-p", parent, "-m", "onto", env=WHO | beginning)
    what = f"#{pull.number} cannot be rebased: {one[:10]} does not apply onto {pull.base}"
    tree = await merged_tree(refs, ours.decode().strip(), one, what=what)
    there = (await refs.answer("rev-parse", f"{onto}^{{tree}}")).decode().strip()
    if tree == there:
        return onto
    told = await refs.answer("log", "-1", "--format=%an%x00%ae%x00%ad%x00%B", "--date=raw", one)
    name, email, date, message = told.decode("utf-8", "replace").split("\0", 3)
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email, "GIT_AUTHOR_DATE": f"@{date}"}
    made = await refs.answer(
        "commit-tree", tree, "-p", onto, "-F", "-", input=message.encode(), env=WHO | beginning | author
    )
    return made.decode().strip()


async def _dates(refs: Refs, *parents: str) -> dict[str, str]:
    """The newest parent's date, so that merging the same again makes the same commit."""
    dates = await refs.answer("log", "--no-walk", "--format=%ct", *parents)
    return {name: f"@{max(map(int, dates.split()))} +0000" for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}


def _said(title: str, message: str) -> bytes:
    return (f"{title}\n\n{message}\n" if message else f"{title}\n").encode("utf-8", "replace")


_WAYS = {"merge": _joined, "squash": _squashed, "rebase": replayed}
