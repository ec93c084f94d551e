"""An agent's own commits, taken in as data: bundled inside its box, checked by git before we keep an object of them."""

import asyncio
import os
import stat
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.names import directory_name
from resolvent.errors import ExportRefused, GitError

NAME = "commits.bundle"
MAX_BYTES = 1 << 30
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
    strict = ("-c", "transfer.fsckObjects=true", "-c", "fetch.fsckObjects=true")
    taken = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(scratch / NAME), f"+HEAD:{ref}")
    try:
        await git(*strict, *taken, env={"GIT_ALLOW_PROTOCOL": "file"})
    except GitError as error:
        raise ExportRefused(f"git refuses the agent's commits: {error.stderr or error.message}") from error
    return ref


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
