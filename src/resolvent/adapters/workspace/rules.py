"""What a commit ignores, as git itself reads it, and what nobody commits; nothing an agent left has a say."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.conversation import Conversation, Unanswered
from resolvent.adapters.workspace.names import shown
from resolvent.adapters.workspace.trees import Trees
from resolvent.errors import ExportRefused

_ASK = ("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
# Git tries a pattern with many stars in every way there is: for a path made to measure that takes for ever.
ANSWER_S, TOTAL_S = 30.0, 300.0


# What interpreters, test runners and package managers leave wherever they are run: nobody means to commit it, and a
# repository that does says so in its own rules. Byte code would even decide what later checks execute.
_DIRECTORIES = frozenset(
    (
        b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis", b".tox", b".nox", b".venv",
        b"node_modules",
    )
)  # fmt: skip
_FILES, _ENDINGS = frozenset((b".DS_Store", b".coverage")), (b".pyc", b".pyo")


def _left_behind(path: bytes, *, directory: bool) -> bool:
    """No rule speaks of this untracked path, and it is what tools leave behind."""
    name = path.rpartition(b"/")[2]
    return name in _DIRECTORIES if directory else name in _FILES or name.endswith(_ENDINGS)


class Rules:
    """A conversation with `git check-ignore` over a private work tree that holds a commit's .gitignore files only."""

    def __init__(self, git: Git, *, trees: Trees, commit: str, work_tree: Path) -> None:
        self._trees = trees
        self._commit = commit
        self._work_tree = os.fsencode(work_tree) + b"/"
        # The tree of each directory whose rules are known, and whether any speak there, its own or from above.
        self._known: dict[bytes, tuple[str | None, bool]] = {}
        # This one command refuses literal pathspecs; a leading `./` makes every name one anyway.
        env = {"GIT_WORK_TREE": os.fsdecode(self._work_tree), "GIT_LITERAL_PATHSPECS": "0"}
        self._talk = Conversation(git, *_ASK, env=env, answer_s=ANSWER_S, total_s=TOTAL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._talk.__exit__(*failure)

    def ignore(self, path: bytes, *, directory: bool = False) -> bool:
        """The rules name this untracked path, or a directory above it; or they do not, and it is only left behind."""
        if not self._laid(path.rpartition(b"/")[0])[1]:
            return _left_behind(path, directory=directory)
        if directory:
            # Git looks at the disk to learn whether a name is one that `name/` speaks of.
            with suppress(FileExistsError, NotADirectoryError):
                os.makedirs(self._work_tree + path, exist_ok=True)
        pattern = self._deciding(path)
        return not pattern.startswith(b"!") if pattern else _left_behind(path, directory=directory)

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

    def _deciding(self, path: bytes) -> bytes:
        """The pattern that decides about a path: source, line, pattern and path come back for every one asked."""
        try:
            self._talk.ask(b"./" + path + b"\0")
            return [self._talk.until(b"\0") for _ in range(4)][2]
        except Unanswered as error:
            name = shown(path)
            reason = f"git does not find out whether the commit's own rules ignore {name[:200]!a}"
            raise ExportRefused(reason, hint="git log -p -- .gitignore", paths=[name]) from error
