"""Commits, what lies between two of them, and the files in them."""

import re
from collections.abc import Sequence

from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute

from resolvent.errors import GitError
from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.door_pages import paged
from resolvent.forge_server.holdings import Commit
from resolvent.forge_server.rest.asking import Answer, Asking, found, in_repo
from resolvent.forge_server.shapes.git import (
    Compared,
    Entry,
    commit,
    commit_with_files,
    comparison,
    file_content,
    listed_content,
)

_HEX = re.compile(r"[0-9a-f]{4,64}")
_MOST_LISTED = 10_000


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/compare/{pair:path}", compare),
        in_repo("GET", "/contents", contents),
        in_repo("GET", "/contents/{path:path}", contents),
        in_repo("GET", "/readme", readme),
        in_repo("GET", "/commits", listed),
        # Takes every path that begins so: what lies below a commit is asked for first.
        in_repo("GET", "/commits/{ref:path}", show),
    ]


async def _resolved(asking: Asking, name: str) -> Commit | None:
    """The commit that a branch, a ref, or the beginning of a commit's id names."""
    if name == "HEAD":
        name = asking.sight.holdings.default_branch
    refs = asking.sight.holdings.refs
    at = next((refs[ref] for ref in (f"refs/heads/{name}", f"refs/{name}", name) if ref in refs), name)
    if _HEX.fullmatch(at) and len(at) < 40:
        said = await asking.hub.git("rev-parse", "--verify", "--quiet", f"{at}^{{commit}}", check=False)
        at = said.decode().strip()
    return await asking.hub.commit(at)


async def commit_of(asking: Asking, name: str) -> Commit:
    """The commit of that name, or GitHub's words for none."""
    made = await _resolved(asking, name)
    if made is None:
        raise Refusal(422, f"No commit found for SHA: {name[:80]}")
    return made


async def listed(asking: Asking) -> Response:
    """The history of `sha`, newest first, of a `path` if one is named."""
    start = await _resolved(asking, asking.query("sha") or asking.sight.holdings.default_branch)
    if start is None:
        if not asking.query("sha"):
            raise Refusal(409, "Git Repository is empty.")
        raise not_found()
    path = asking.query("path")
    if "\0" in path:
        raise not_found()
    said = await asking.hub.git("rev-list", f"--max-count={_MOST_LISTED}", start.id, "--", *([path] if path else []))
    ids: Sequence[str] = said.decode().split()
    page, headers = paged(asking.request, ids)
    made = [found(await asking.hub.commit(id)) for id in page]
    return Answer([commit(asking.sight, one) for one in made], headers=headers)


async def show(asking: Asking) -> Response:
    made = await commit_of(asking, asking.place("ref"))
    accept = asking.request.headers.get("accept", "")
    if ".sha" in accept:
        return PlainTextResponse(made.id)
    before = made.parents[0] if made.parents else await _nothing(asking)
    if ".diff" in accept:
        return PlainTextResponse(await asking.hub.patch(before, made.id))
    return Answer(commit_with_files(asking.sight, made, await asking.hub.files(before, made.id)))


async def _nothing(asking: Asking) -> str:
    """The empty tree, which is what a first commit is different from."""
    return (await asking.hub.git("hash-object", "-t", "tree", "--stdin", input=b"")).decode().strip()


async def compare(asking: Asking) -> Response:
    one, dots, other = asking.place("pair").partition("...")
    if not dots:
        one, dots, other = asking.place("pair").partition("..")
    names = [_ours(asking, name) for name in (one, other)]
    base, head = [await _resolved(asking, name) for name in names]
    if base is None or head is None:
        raise not_found()
    fork = await asking.hub.commit(await asking.hub.shared(base.id, head.id))
    if fork is None:
        raise Refusal(404, f"No common ancestor between {one[:80]} and {other[:80]}.")
    compared = Compared(
        base=base,
        head=head,
        fork=fork,
        ahead=await asking.hub.between(base.id, head.id),
        behind=len(await asking.hub.between(head.id, base.id)),
        files=await asking.hub.files(fork.id, head.id),
    )
    accept = asking.request.headers.get("accept", "")
    if ".diff" in accept or ".patch" in accept:
        return PlainTextResponse(await asking.hub.patch(fork.id, head.id))
    return Answer(comparison(asking.sight, compared))


def _ours(asking: Asking, name: str) -> str:
    """A branch without the owner before it, who is ours."""
    owner, colon, branch = name.rpartition(":")
    if colon and owner.casefold() != asking.sight.holdings.owner.casefold():
        raise not_found()
    return branch


async def entries(asking: Asking, tree: str, *options: str) -> list[Entry]:
    """The lines of a tree; NotFound is nothing."""
    try:
        said = await asking.hub.git("ls-tree", "-l", "-z", *options, tree)
    except GitError as error:
        raise not_found() from error
    listed = []
    for line in said.decode("utf-8", "replace").split("\0"):
        if line:
            facts, path = line.split("\t", 1)
            mode, kind, id, size = facts.split()
            listed.append(Entry(mode, kind, id, int(size) if size.isdigit() else 0, path))
    return listed


async def contents(asking: Asking) -> Response:
    """A file with its bytes, or the names in a directory."""
    made = await _resolved(asking, asking.query("ref") or asking.sight.holdings.default_branch)
    if made is None:
        raise Refusal(404, f"No commit found for the ref {asking.query('ref')[:80]}")
    path = str(asking.request.path_params.get("path", "")).strip("/")
    return await _content(asking, made.id, path)


async def _content(asking: Asking, at: str, path: str) -> Response:
    if "\0" in path or "\n" in path:
        raise not_found()
    parent = path.rpartition("/")[0]
    around = await entries(asking, f"{at}:{parent}")
    whole = [Entry(one.mode, one.kind, one.id, one.size, f"{parent}/{one.path}".lstrip("/")) for one in around]
    if not path:
        return Answer([listed_content(asking.sight, one, at) for one in whole])
    entry = found(next((one for one in whole if one.path == path), None))
    if entry.kind == "tree":
        inside = await entries(asking, f"{at}:{path}")
        below = [Entry(one.mode, one.kind, one.id, one.size, f"{path}/{one.path}") for one in inside]
        return Answer([listed_content(asking.sight, one, at) for one in below])
    content = found(await asking.hub.contents(at, path))
    if ".raw" in asking.request.headers.get("accept", ""):
        return Response(content, media_type="application/vnd.github.raw; charset=utf-8")
    return Answer(file_content(asking.sight, entry, at, content))


async def readme(asking: Asking) -> Response:
    made = found(await _resolved(asking, asking.query("ref") or asking.sight.holdings.default_branch))
    names = [one.path for one in await entries(asking, made.id) if one.kind == "blob"]
    name = found(next((one for one in names if one.casefold().split(".")[0] == "readme"), None))
    return await _content(asking, made.id, name)
