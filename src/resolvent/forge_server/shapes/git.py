"""Refs, commits, trees, files and the difference between two commits."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from resolvent.forge_server.holdings import ChangedFile, Commit
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.pulls import changed_file
from resolvent.forge_server.shapes.sight import Json, Sight, instant, quoted


def ref(sight: Sight, name: str, commit: str) -> Json:
    """A ref by its full name."""
    return {
        "ref": name,
        "node_id": node_id("Ref", name),
        "url": f"{sight.repo}/git/{quoted(name)}",
        "object": {"type": "commit", "sha": commit, "url": f"{sight.repo}/git/commits/{commit}"},
    }


def _signature(commit: Commit) -> Json:
    return {"name": commit.author, "email": commit.email, "date": instant(commit.at)}


def _verification() -> Json:
    return {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def git_commit(sight: Sight, commit: Commit) -> Json:
    """A commit as git has it."""
    return {
        "sha": commit.id,
        "node_id": node_id("Commit", commit.id),
        "url": f"{sight.repo}/git/commits/{commit.id}",
        "html_url": f"{sight.page}/commit/{commit.id}",
        "author": _signature(commit),
        "committer": _signature(commit),
        "message": commit.message,
        "tree": {"sha": commit.tree, "url": f"{sight.repo}/git/trees/{commit.tree}"},
        "parents": [
            {"sha": one, "url": f"{sight.repo}/git/commits/{one}", "html_url": f"{sight.page}/commit/{one}"}
            for one in commit.parents
        ],
        "verification": _verification(),
    }


def commit(sight: Sight, made: Commit) -> Json:
    """A commit as the repository shows it; its author is a person here when the name is a login."""
    url = f"{sight.repo}/commits/{made.id}"
    person = simple_user(sight, made.author) if made.author in sight.holdings.accounts else None
    return {
        "url": url,
        "sha": made.id,
        "node_id": node_id("Commit", made.id),
        "html_url": f"{sight.page}/commit/{made.id}",
        "comments_url": f"{url}/comments",
        "commit": {
            "url": f"{sight.repo}/git/commits/{made.id}",
            "author": _signature(made),
            "committer": _signature(made),
            "message": made.message,
            "comment_count": 0,
            "tree": {"sha": made.tree, "url": f"{sight.repo}/git/trees/{made.tree}"},
            "verification": _verification(),
        },
        "author": person,
        "committer": person,
        "parents": [
            {"sha": one, "url": f"{sight.repo}/commits/{one}", "html_url": f"{sight.page}/commit/{one}"}
            for one in made.parents
        ],
    }


def commit_with_files(sight: Sight, made: Commit, files: Sequence[ChangedFile]) -> Json:
    """A commit and what it changed."""
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    return commit(sight, made) | {
        "stats": {"additions": added, "deletions": removed, "total": added + removed},
        "files": [changed_file(sight, one, made.id) for one in files],
    }


def simple_commit(made: Commit) -> Json:
    """A commit, as runs and check suites name it."""
    person = {"name": made.author, "email": made.email}
    return {
        "id": made.id,
        "tree_id": made.tree,
        "message": made.message,
        "timestamp": instant(made.at),
        "author": person,
        "committer": person,
    }


@dataclass(frozen=True)
class Compared:
    """Two commits, where they part, what is new on either side, and the files of the difference."""

    base: Commit
    head: Commit
    fork: Commit
    ahead: tuple[Commit, ...]
    behind: int
    files: tuple[ChangedFile, ...]


def comparison(sight: Sight, compared: Compared) -> Json:
    """The difference between two commits."""
    pair = f"{compared.base.id}...{compared.head.id}"
    status: Literal["diverged", "ahead", "behind", "identical"] = "identical"
    if compared.ahead:
        status = "diverged" if compared.behind else "ahead"
    elif compared.behind:
        status = "behind"
    page = f"{sight.page}/compare/{pair}"
    return {
        "url": f"{sight.repo}/compare/{pair}",
        "html_url": page,
        "permalink_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "base_commit": commit(sight, compared.base),
        "merge_base_commit": commit(sight, compared.fork),
        "status": status,
        "ahead_by": len(compared.ahead),
        "behind_by": compared.behind,
        "total_commits": len(compared.ahead),
        "commits": [commit(sight, one) for one in compared.ahead],
        "files": [changed_file(sight, one, compared.head.id) for one in compared.files],
    }


@dataclass(frozen=True)
class Entry:
    """One line of a tree: `kind` is `blob`, `tree` or `commit`."""

    mode: str
    kind: str
    id: str
    size: int
    path: str


def tree(sight: Sight, id: str, entries: Sequence[Entry]) -> Json:
    """A tree and what is in it."""
    listed = []
    for one in entries:
        line: Json = {"path": one.path, "mode": one.mode, "type": one.kind, "sha": one.id}
        plural = {"blob": "blobs", "tree": "trees"}.get(one.kind, "commits")
        line |= {"url": f"{sight.repo}/git/{plural}/{one.id}"}
        listed.append(line | ({"size": one.size} if one.kind == "blob" else {}))
    return {"sha": id, "url": f"{sight.repo}/git/trees/{id}", "tree": listed, "truncated": False}


def blob(sight: Sight, id: str, content: bytes) -> Json:
    """A blob, its bytes in base64 whatever they are."""
    return {
        "sha": id,
        "node_id": node_id("Tree", id),
        "url": f"{sight.repo}/git/blobs/{id}",
        "size": len(content),
        "encoding": "base64",
        "content": b64encode(content).decode(),
    }


def listed_content(sight: Sight, entry: Entry, at: str) -> Json:
    """A file or directory of a listing at this commit; `entry.path` is whole."""
    kinds = {"blob": "symlink" if entry.mode == "120000" else "file", "tree": "dir"}
    path = quoted(entry.path)
    url = f"{sight.repo}/contents/{path}?ref={at}"
    git = f"{sight.repo}/git/{'trees' if entry.kind == 'tree' else 'blobs'}/{entry.id}"
    page = f"{sight.page}/{'tree' if entry.kind == 'tree' else 'blob'}/{at}/{path}"
    return {
        "type": kinds.get(entry.kind, "submodule"),
        "size": max(0, entry.size),
        "name": entry.path.rsplit("/", 1)[-1],
        "path": entry.path,
        "sha": entry.id,
        "url": url,
        "git_url": git,
        "html_url": page,
        "download_url": f"{sight.page}/raw/{at}/{path}" if entry.kind == "blob" else None,
        "_links": {"self": url, "git": git, "html": page},
    }


def file_content(sight: Sight, entry: Entry, at: str, content: bytes) -> Json:
    """A file with its bytes, in lines of base64 as GitHub breaks them."""
    packed = b64encode(content).decode()
    lines = "".join(packed[start : start + 60] + "\n" for start in range(0, len(packed), 60))
    return listed_content(sight, entry, at) | {"type": "file", "encoding": "base64", "content": lines}
