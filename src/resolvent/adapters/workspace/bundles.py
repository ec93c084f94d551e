"""An agent's own commits, taken in as data: bundled inside its box, checked by git before we keep an object of them."""

import asyncio
import os
import re
import stat
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.names import directory_name
from resolvent.errors import ExportRefused, GitError

NAME = "commits.bundle"
MAX_BYTES = 1 << 30
# What comes before the pack: a version, what must be there already, and what is called how.
MAX_HEADER = 1 << 20
_KNOWN = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_HEAD = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64}) HEAD$", re.M)
# Run in the branch, in its box: what lies in its `.git` is the agent's, and no git of ours ever reads that.
COMMAND = (
    f'git bundle create --quiet "$TMPDIR/{NAME}" HEAD "^$0" 2>"$TMPDIR/said"'
    ' || { cat "$TMPDIR/said"; grep -q "empty bundle" "$TMPDIR/said"; }'
)


async def take_bundle(git: Git, left: Path, *, branch: str, scratch: Path) -> str | None:
    """Keep the commits of a bundle that lies at `left` under the ref that is returned; None when there is none."""
    if not await asyncio.to_thread(_copied, left, scratch / NAME):
        return None
    ref = f"refs/agents/{directory_name(branch)}"
    with (scratch / NAME).open("rb", buffering=0) as bundle:
        commit, pack = await asyncio.to_thread(_head, bundle.fileno())
        os.lseek(bundle.fileno(), pack, os.SEEK_SET)
        try:
            # Not by a fetch: before 2.46 git asks no bundle whether its objects are sound, whatever is configured.
            await git("index-pack", "--stdin", "--fix-thin", "--strict", input=bundle)
            await git("update-ref", ref, f"{commit}^{{commit}}")
        except GitError as error:
            raise ExportRefused(f"git refuses the agent's commits: {error.stderr or error.message}") from error
    return ref


def _head(bundle: int) -> tuple[str, int]:
    """The commit a bundle calls HEAD, and where its pack begins."""
    said, _, rest = os.pread(bundle, MAX_HEADER, 0).partition(b"\n\n")
    head = _HEAD.search(said)
    if not said.startswith(_KNOWN) or not head or not rest.startswith(b"PACK"):
        raise ExportRefused("git refuses the agent's commits: what was left as a bundle is none with a HEAD")
    return head[1].decode(), len(said) + 2


def _copied(left: Path, ours: Path) -> bool:
    """A copy that nobody can change under git's eyes; False when nothing was left."""
    try:
        # Its directory is the agent's as well, and may be a link by now.
        folder = os.open(left.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fd = os.open(left.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ExportRefused(f"what was left as a bundle cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as source, ours.open("wb") as target:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
            raise ExportRefused(f"what was left as a bundle is no file of at most {MAX_BYTES >> 20} MiB")
        while chunk := source.read(1 << 20):
            target.write(chunk)
    return True
