"""Git as we trust it: our own repository, our own environment, nobody's configuration."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TypeVar

from resolvent.errors import GitError, StoreBusy, UsageError

__all__ = ["Git", "GitError"]

T = TypeVar("T")

_ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    # Paths are data: a file called ":(top)" is only a file.
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}
_SETTINGS = {
    # No tree's attributes decide what a diff shows.
    "attr.tree": "",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    # What the record speaks of must outlive a power loss as the record does; one wait for many objects.
    "core.fsync": "committed,loose-object,reference",
    "core.fsyncMethod": "batch",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # Who needs a transport says which: env={"GIT_ALLOW_PROTOCOL": "file"} overrides this one.
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
# Kept in the repository itself too: a person's `git gc`, or a push from another process, obeys them as well.
_BARE = """\
[core]
\tfsync = committed,loose-object,reference
\tfsyncMethod = batch
\thooksPath = /dev/null
[gc]
\tauto = 0
\tpruneExpire = never
[receive]
\tautogc = false
"""


def upstream_of(git_dir: Path) -> Path:
    """The repository beside ours that holds what the forge has, and nothing that only an agent left."""
    return git_dir.with_name("upstream.git")


class Git:
    """Runs git on one trusted repository. It inherits nothing of our environment but the search path."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir.absolute()

    async def __call__(
        self,
        *args: str,
        input: bytes | IO[bytes] | None = None,
        env: Mapping[str, str] = {},
        check: bool = True,
    ) -> bytes:
        """Its standard output; GitError when it fails and `check` is set, StoreBusy when the disk is full."""
        text = input if isinstance(input, bytes) else None
        stdin = subprocess.PIPE if isinstance(input, bytes) else input or subprocess.DEVNULL
        # A thread per call takes 2 ms less than asyncio's own subprocess, which watches each child with one too.
        process = self.popen(*args, stdin=stdin, stderr=subprocess.PIPE, env=env)
        try:
            stdout, stderr = await asyncio.to_thread(process.communicate, text)
        except asyncio.CancelledError:
            # Not killed: git takes its lock files with it when it is told to end.
            process.terminate()
            raise
        if check and process.returncode:
            raise failed(args, exit=process.returncode, stderr=stderr, stdout=stdout)
        return stdout

    def stream(
        self, *args: str, input: bytes | IO[bytes] = b"", env: Mapping[str, str] = {}, read: Callable[[IO[bytes]], T]
    ) -> T:
        """Blocking, for threads: let `read` take standard output bit by bit, so that it need not fit into memory."""
        # Files for both ends that are not read here: with one pipe left there is nothing to deadlock on.
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            if isinstance(input, bytes):
                stdin.write(input)
                stdin.seek(0)
            source = stdin if isinstance(input, bytes) else input
            with self.popen(*args, stdin=source, stderr=stderr, env=env) as process:
                assert process.stdout is not None
                try:
                    result = read(process.stdout)
                except BaseException:
                    process.kill()
                    raise
            stderr.seek(0)
            if process.returncode:
                raise failed(args, exit=process.returncode, stderr=stderr.read())
            return result

    def popen(
        self, *args: str, stdin: IO[bytes] | int = subprocess.PIPE, stderr: IO[bytes] | int, env: Mapping[str, str] = {}
    ) -> subprocess.Popen[bytes]:
        """Start git for a conversation over pipes, from a thread; the caller ends it."""
        try:
            return subprocess.Popen(
                self.argv(*args),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(env),
                cwd="/",
                # Whatever ours is: boxes read the objects as another user, and the state directory lets nobody in.
                umask=0o022,
            )
        except FileNotFoundError as error:
            raise _missing() from error

    def argv(self, *args: str) -> list[str]:
        """The command line for one call; run it with `environment()` and nothing else."""
        settings = (part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}"))
        return ["git", f"--git-dir={self.git_dir}", *settings, *args]

    @classmethod
    async def init_bare(cls, path: Path) -> "Git":
        """The bare repository at `path`, made if it is not there; never half-made."""
        git = cls(path)
        if (git.git_dir / "HEAD").is_file():
            return git
        git.git_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=git.git_dir.parent) as scratch:
            made = cls(Path(scratch) / "repo.git")
            await made("init", "--quiet", "--bare", "--template=", "--initial-branch=main")
            config = made.git_dir / "config"
            config.write_text(config.read_text() + _BARE)
            try:
                made.git_dir.rename(git.git_dir)
            except OSError:
                # Someone else made it in the meantime: theirs is as good.
                if not (git.git_dir / "HEAD").is_file():
                    raise
        return git


def environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """The whole environment git gets."""
    return {**_ENVIRONMENT, "PATH": os.pathsep.join(os.get_exec_path()), **more}


def failed(args: tuple[str, ...], *, exit: int, stderr: bytes, stdout: bytes = b"") -> GitError | StoreBusy:
    """The error for a git that ended badly: who must act is told apart by what it said."""
    said = stderr.decode("utf-8", "backslashreplace").strip()
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return StoreBusy(f"git {args[0]}: the disk is full", hint="df -h", stderr=said)
    last = said.splitlines()[-1] if said else f"exit {exit}"
    error = GitError(f"git {args[0]}: {last}", exit=exit, stderr=said)
    error.stdout = stdout
    return error


def _missing() -> UsageError:
    return UsageError("git is not installed", hint="sudo apt-get install --yes git")
