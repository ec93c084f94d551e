"""What a commit ignores, as git itself reads it; nothing an agent left has a say."""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from resolvent.adapters.git import Git, failed
from resolvent.adapters.workspace.trees import Trees

_ASK = ("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")


class Rules:
    """A conversation with `git check-ignore` over a private work tree that holds a commit's .gitignore files only."""

    def __init__(self, git: Git, *, trees: Trees, commit: str, work_tree: Path) -> None:
        self._git = git
        self._trees = trees
        self._commit = commit
        self._work_tree = os.fsencode(work_tree) + b"/"
        # The tree of each directory whose rules are known, and whether any speak there, its own or from above.
        self._known: dict[bytes, tuple[str | None, bool]] = {}
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
        if not self._laid(path.rpartition(b"/")[0])[1]:
            return False
        process = self._process or self._start()
        if directory:
            # Git looks at the disk to learn whether a name is one that `name/` speaks of.
            with suppress(FileExistsError, NotADirectoryError):
                os.makedirs(self._work_tree + path, exist_ok=True)
        pattern = self._ask(process, path)
        return bool(pattern) and not pattern.startswith(b"!")

    def _laid(self, directory: bytes) -> tuple[str | None, bool]:
        """Lay out the rules of a directory and of all above it; git reads them when it first comes there."""
        if directory not in self._known:
            if directory:
                above, _, name = directory.rpartition(b"/")
                outer, speaking = self._laid(above)
                tree = self._trees.below(outer, name)
            else:
                tree, speaking = self._trees.top(self._commit), False
            rules = self._trees.rows(tree).get(b".gitignore")
            # Git reads no rules through links either.
            if rules is not None and rules.mode.startswith("100"):
                place = self._work_tree + (directory + b"/" if directory else b"")
                os.makedirs(place, exist_ok=True)
                Path(os.fsdecode(place + b".gitignore")).write_bytes(self._trees.blob(rules.oid))
                speaking = True
            self._known[directory] = tree, speaking
        return self._known[directory]

    def _start(self) -> subprocess.Popen[bytes]:
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
