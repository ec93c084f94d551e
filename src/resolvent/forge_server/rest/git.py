"""Git's own things: refs, commits, trees and blobs, read and made."""

import binascii
import re
import tempfile
from base64 import b64decode

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.errors import ForgeRefused, GitError
from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.rest.asking import Answer, Asking, found, gone, in_repo
from resolvent.forge_server.rest.commits import entries
from resolvent.forge_server.rest.fields import Fields
from resolvent.forge_server.shapes.git import blob, git_commit, ref, tree
from resolvent.forge_server.shapes.repository import is_protected

_ID = re.compile(r"[0-9a-f]{40,64}")
_FORBIDDEN = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|[/.]$|^@$")
_MODES = ("100644", "100755", "040000", "160000", "120000")


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "/git/ref/{ref:path}", show),
        in_repo("GET", "/git/matching-refs/{ref:path}", matching),
        in_repo("POST", "/git/refs", create),
        in_repo("PATCH", "/git/refs/{ref:path}", move),
        in_repo("DELETE", "/git/refs/{ref:path}", remove),
        in_repo("POST", "/git/commits", create_commit),
        in_repo("GET", "/git/commits/{commit}", show_commit),
        in_repo("POST", "/git/trees", create_tree),
        in_repo("GET", "/git/trees/{tree:path}", show_tree),
        in_repo("POST", "/git/blobs", create_blob),
        in_repo("GET", "/git/blobs/{blob}", show_blob),
    ]


def _full(asking: Asking) -> str:
    return f"refs/{asking.place('ref').removeprefix('refs/')}"


async def show(asking: Asking) -> Response:
    name = _full(asking)
    return Answer(ref(asking.sight, name, found(asking.sight.holdings.refs.get(name))))


async def matching(asking: Asking) -> Response:
    beginning = _full(asking)
    names = sorted(name for name in asking.sight.holdings.refs if name.startswith(beginning))
    return asking.listed(names, lambda name: ref(asking.sight, name, asking.sight.holdings.refs[name]))


async def _target(asking: Asking, fields: Fields) -> str:
    commit = fields.filled("sha")
    if not _ID.fullmatch(commit):
        raise Refusal(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
    if await asking.hub.commit(commit) is None:
        raise Refusal(422, "Object does not exist")
    return commit


def _writable(asking: Asking, name: str) -> None:
    """Who may write may move branches; a protected one only admins."""
    asking.needs("write")
    if is_protected(asking.sight, name.removeprefix("refs/heads/")) and asking.by.permission != "admin":
        raise Refusal(422, "Protected branch update failed for " + name)


async def create(asking: Asking) -> Response:
    fields = await asking.fields("Reference")
    name, commit = fields.filled("ref", longest=1024), await _target(asking, fields)
    if not name.startswith("refs/") or name.count("/") < 2:
        raise Refusal(422, "Reference name must start with 'refs/' and have at least two slashes.")
    if _FORBIDDEN.search(name):
        raise Refusal(422, f"{name} is not a valid ref name.")
    asking.needs("write")
    if name in asking.sight.holdings.refs:
        raise Refusal(422, "Reference already exists")
    try:
        await asking.hub.create_ref(asking.by, name, commit)
    except ForgeRefused as error:
        if error.details.get("exists"):
            raise Refusal(422, "Reference already exists") from error
        raise
    shape = ref(await asking.again(), name, commit)
    return Answer(shape, 201, headers={"location": shape["url"]})


async def move(asking: Asking) -> Response:
    name = _full(asking)
    fields = await asking.fields("Reference")
    commit, force = await _target(asking, fields), fields.flag("force") or False
    _writable(asking, name)
    now = asking.sight.holdings.refs.get(name)
    if now is None:
        raise Refusal(422, "Reference does not exist")
    if not force and await asking.hub.shared(now, commit) != now:
        raise Refusal(422, "Update is not a fast forward")
    await asking.hub.update_ref(asking.by, name, commit, force=force)
    return Answer(ref(await asking.again(), name, commit))


async def remove(asking: Asking) -> Response:
    name = _full(asking)
    _writable(asking, name)
    if name not in asking.sight.holdings.refs:
        raise Refusal(422, "Reference does not exist")
    await asking.hub.delete_ref(asking.by, name)
    return gone()


async def show_commit(asking: Asking) -> Response:
    return Answer(git_commit(asking.sight, found(await asking.hub.commit(asking.place("commit")))))


async def _kind(asking: Asking, id: str) -> str:
    """What an object is; nothing when there is none."""
    if not _ID.fullmatch(id):
        return ""
    return (await asking.hub.git("cat-file", "-t", id, check=False)).decode().strip()


async def create_commit(asking: Asking) -> Response:
    fields = await asking.fields("Commit")
    message, root, parents = fields.filled("message"), fields.filled("tree"), fields.texts("parents") or []
    asking.needs("write")
    # Every git knows the empty tree, whether anybody made it or not.
    if await _kind(asking, root) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    for parent in parents:
        if await asking.hub.commit(parent) is None:
            raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    made = await asking.hub.create_commit(asking.by, message, root, parents)
    shape = git_commit(asking.sight, made)
    return Answer(shape, 201, headers={"location": shape["url"]})


async def show_tree(asking: Asking) -> Response:
    name = asking.place("tree")
    at = (
        asking.sight.branch_commit(name) or asking.sight.holdings.refs.get(f"refs/{name.removeprefix('refs/')}") or name
    )
    if await _kind(asking, at) not in ("tree", "commit"):
        raise not_found()
    id = (await asking.hub.git("rev-parse", f"{at}^{{tree}}")).decode().strip()
    deep = ("-r", "-t") if asking.query("recursive") else ()
    return Answer(tree(asking.sight, id, await entries(asking, id, *deep)))


async def create_tree(asking: Asking) -> Response:
    fields = await asking.fields("Tree")
    under, lines = fields.text("base_tree") or "", fields.objects("tree")
    asking.needs("write")
    if not lines or (under and await _kind(asking, under) not in ("tree", "commit")):
        raise Refusal(422, "Invalid tree info")
    listed = "".join([await _index_line(asking, one) for one in lines])
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        try:
            await asking.hub.git("read-tree", under or "--empty", env=env)
            await asking.hub.git("update-index", "-z", "--index-info", input=listed.encode(), env=env)
            id = (await asking.hub.git("write-tree", env=env)).decode().strip()
        except GitError as error:
            raise Refusal(422, "tree.path contains a malformed path component") from error
    return Answer(tree(asking.sight, id, await entries(asking, id)), 201)


async def _index_line(asking: Asking, fields: Fields) -> str:
    """A line of a tree as git's index takes it; one without object and content takes the path away."""
    path = fields.filled("path", longest=4096)
    mode = fields.choice("mode", _MODES) or "100644"
    content, id = fields.text("content", longest=4 << 20), fields.text("sha")
    if content is not None:
        id = (await asking.hub.git("hash-object", "-w", "--stdin", input=content.encode())).decode().strip()
    elif id is not None and not await _kind(asking, id):
        raise Refusal(422, f"tree.sha {id[:80]} is not a valid object")
    return f"{mode if id else '0'} {id or '0' * 40}\t{path}\0"


async def create_blob(asking: Asking) -> Response:
    fields = await asking.fields("Blob")
    content = fields.text("content", longest=8 << 20) or ""
    packed = fields.choice("encoding", ("utf-8", "base64")) == "base64"
    asking.needs("write")
    try:
        plain = b64decode(content) if packed else content.encode()
    except (binascii.Error, ValueError) as error:
        raise Refusal(422, "content is not valid Base64") from error
    id = (await asking.hub.git("hash-object", "-w", "--stdin", input=plain)).decode().strip()
    url = f"{asking.sight.repo}/git/blobs/{id}"
    return Answer({"sha": id, "url": url}, 201, headers={"location": url})


async def show_blob(asking: Asking) -> Response:
    id = asking.place("blob")
    if await _kind(asking, id) != "blob":
        raise not_found()
    content = await asking.hub.git("cat-file", "blob", id)
    if ".raw" in asking.request.headers.get("accept", ""):
        return Response(content, media_type="application/vnd.github.raw; charset=utf-8")
    return Answer(blob(asking.sight, id, content))
