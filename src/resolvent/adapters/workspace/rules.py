"""What a commit ignores, as git itself reads it; nothing an agent left has a say."""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from resolvent.adapters.git import Git, failed
from resolvent.adapters.workspace.objects import Listing

_ASK = ("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")


class Rules:
    """A conversation with `git check-ignore` over a private work tree that holds a commit's .gitignore files only."""

    def __init__(self, git: Git, *, listing: Listing, sealed: Path, work_tree: Path) -> None:
        self._git = git
        self._work_tree = os.fsencode(work_tree) + b"/"
        self._sealed = os.fsencode(sealed) + b"/"
        # Git reads no rules through links either.
        self._sources = [
            path
            for path, entry in listing.entries.items()
            if path.rpartition(b"/")[2] == b".gitignore" and entry.mode.startswith("100")
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.communicate()
        self._said.close()

    def ignore(self, path: bytes, *, directory: bool = False) -> bool:
        """The rules name this untracked path, or a directory above it."""
        if not self._sources:
            return False
        process = self._process or self._start()
        if directory:
            # Git looks at the disk to learn whether a name is one that `name/` speaks of.
            with suppress(FileExistsError, NotADirectoryError):
                os.makedirs(self._work_tree + path, exist_ok=True)
        pattern = self._ask(process, path)
        return bool(pattern) and not pattern.startswith(b"!")

    def _start(self) -> subprocess.Popen[bytes]:
        for source in self._sources:
            place = self._work_tree + source
            os.makedirs(os.path.dirname(place), exist_ok=True)
            Path(os.fsdecode(place)).write_bytes(Path(os.fsdecode(self._sealed + source)).read_bytes())
        # This one command refuses literal pathspecs; a leading `./` makes every name one anyway.
        env = {"GIT_WORK_TREE": os.fsdecode(self._work_tree), "GIT_LITERAL_PATHSPECS": "0"}
        self._process = self._git.popen(*_ASK, stderr=self._said, env=env)
        return self._process

    def _ask(self, process: subprocess.Popen[bytes], path: bytes) -> bytes:
        """The pattern that decides about a path: source, line, pattern and path come back for every one asked."""
        assert process.stdin is not None and process.stdout is not None
        answer = b""
        with suppress(BrokenPipeError):
            process.stdin.write(b"./" + path + b"\0")
            process.stdin.flush()
        while answer.count(b"\0") < 4:
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                self._said.seek(0)
                raise failed(_ASK, exit=process.wait(), stderr=self._said.read())
            answer += chunk
        return answer.split(b"\0")[2]
