"""Export: read what an agent left as data, and make one commit of it. No git ever looks at an agent's files."""

import os
from dataclasses import dataclass, field

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.files import MAX_DEPTH, open_file, opened
from resolvent.adapters.workspace.names import poses_as_git, shown
from resolvent.adapters.workspace.objects import GITLINK, LINK, Entry, Listing, Pack
from resolvent.adapters.workspace.rules import Rules
from resolvent.adapters.workspace.sealed import EMAIL, NAME
from resolvent.domain.change import Change
from resolvent.errors import ExportRefused, GitError

MAX_BYTES = 100 << 20
MAX_PATH = 3000
# As git's own transfers: few objects are kept one by one, many as one pack.
_FEW = 100


@dataclass
class Harvest:
    """What a walk through a workspace finds, against what its parent commit holds."""

    parent: Listing
    rules: Rules
    pack: Pack
    found: dict[bytes, Entry] = field(default_factory=dict)
    skipped: list[bytes] = field(default_factory=list)
    refused: dict[bytes, str] = field(default_factory=dict)

    def walk(self, directory: int, *, above: bytes = b"", depth: int = 0) -> None:
        """Take in everything below an open directory."""
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            name = os.fsencode(entry.name)
            path = above + name
            # Whatever the agent made of its own repository is no part of the work.
            if depth == 0 and name == b".git":
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            if not self._wanted(path, is_directory=is_directory):
                self.skipped.append(path + b"/" if is_directory else path)
            elif reason := _refusal(path, name, depth=depth):
                self.refused[path] = reason
            elif is_directory:
                self._enter(directory, entry.name, path=path, depth=depth)
            else:
                self._take(directory, entry, path=path)

    def _wanted(self, path: bytes, *, is_directory: bool) -> bool:
        tracked = path in (self.parent.directories if is_directory else self.parent.entries)
        submodule = is_directory and path in self.parent.entries
        return tracked or submodule or not self.rules.ignore(path, directory=is_directory)

    def _enter(self, directory: int, name: str, *, path: bytes, depth: int) -> None:
        tracked = self.parent.entries.get(path)
        with opened(name, at=directory) as below:
            if tracked is None or tracked.mode != GITLINK:
                self.walk(below, above=path + b"/", depth=depth + 1)
                return
            # A submodule is another repository's work: it stays at its commit, and what was put there is named.
            self.found[path] = tracked
            if os.listdir(below):
                self.skipped.append(path + b"/")

    def _take(self, directory: int, entry: "os.DirEntry[str]", *, path: bytes) -> None:
        if entry.is_symlink():
            self._keep(path, LINK, os.readlink(os.fsencode(entry.name), dir_fd=directory))
            return
        fd = open_file(entry.name, at=directory) if entry.is_file(follow_symlinks=False) else None
        if fd is None:
            # Pipes, sockets and devices hold nothing that could be committed.
            self.skipped.append(path)
            return
        with os.fdopen(fd, "rb", buffering=0) as file:
            about = os.fstat(fd)
            content = file.read(about.st_size + 1) if about.st_size <= MAX_BYTES else b""
        if about.st_size > MAX_BYTES:
            self.refused[path] = f"is larger than {MAX_BYTES >> 20} MiB"
        elif len(content) != about.st_size:
            self.refused[path] = "changes while it is read"
        else:
            self._keep(path, "100755" if about.st_mode & 0o100 else "100644", content)

    def _keep(self, path: bytes, mode: str, content: bytes) -> None:
        old = self.parent.entries.get(path)
        oid = self.pack.name("blob", content)
        if old is None or old.oid != oid:
            self.pack.add("blob", content)
        if old is not None and old.mode[:3] == mode[:3] and int(old.mode, 8) & 0o100 == int(mode, 8) & 0o100:
            # Old repositories hold modes such as 100664: untouched means untouched.
            mode = old.mode
        self.found[path] = Entry(mode, oid)

    def commit(self, *, parent: str, message: str, at: float) -> Change | None:
        """Complete the pack with trees and one commit; None when nothing differs."""
        if self.refused:
            listed = [f"{shown(path)!a} {reason}" for path, reason in self.refused.items()]
            more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
            paths = [shown(path) for path in self.refused]
            raise ExportRefused(f"cannot become a commit: {'; '.join(listed[:20])}{more}", paths=paths)
        if self.found == self.parent.entries:
            return None
        tree = self.pack.add_trees(self.found, known=self.parent.trees)
        who = f"{NAME} <{EMAIL}> {max(0, int(at))} +0000"
        text = message.replace("\0", "\N{REPLACEMENT CHARACTER}").strip() + "\n"
        about = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{text}"
        return Change(commit=self.pack.add("commit", about.encode("utf-8", "replace")), tree=tree)


def _refusal(path: bytes, name: bytes, *, depth: int) -> str:
    if poses_as_git(name):
        return "poses as a repository"
    if depth > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} directories deep"
    return "has too long a path" if len(path) > MAX_PATH else ""


def take_in(git: Git, pack: Pack) -> None:
    """Give new objects to the repository, in a thread; git checks trees and commits strictly before it keeps them."""
    command = ("unpack-objects", "-q") if len(pack) <= _FEW else ("index-pack", "--stdin")
    try:
        git.stream(*command, "--strict", input=pack.finish(), read=lambda said: said.read())
    except GitError as error:
        raise ExportRefused(f"git refuses what was left: {error.stderr}") from error
