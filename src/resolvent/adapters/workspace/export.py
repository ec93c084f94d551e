"""Export: read what an agent left as data, and make one commit of it. No git ever looks at an agent's files."""

import os
from collections.abc import Mapping
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
            elif reason := refusal(path, depth=depth):
                self.refused[path] = reason
            elif is_directory:
                self._enter(directory, entry.name, path=path, depth=depth)
            else:
                self._take(directory, entry, path=path)

    def _wanted(self, path: bytes, *, is_directory: bool) -> bool:
        entry = self.parent.entries.get(path)
        held = path in self.parent.directories or (entry is not None and entry.mode == GITLINK)
        tracked = held if is_directory else entry is not None
        return tracked or not self.rules.ignore(path, directory=is_directory)

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
        try:
            self._keep(path, *read_whole(fd))
        except Refused as reason:
            self.refused[path] = str(reason)

    def _keep(self, path: bytes, mode: str, content: bytes) -> None:
        self.found[path] = kept(self.pack, mode, content, old=self.parent.entries.get(path))

    def commit(self, *, parent: str, message: str, at: float) -> Change | None:
        """Complete the pack with trees and one commit; None when nothing differs."""
        refuse(self.refused)
        if self.found == self.parent.entries:
            return None
        tree = self.pack.add_trees(self.found, known=self.parent.trees)
        return committed(self.pack, tree, parent=parent, message=message, at=at)


class Refused(Exception):
    """Why one file cannot become part of a commit."""


def refusal(path: bytes, *, depth: int) -> str:
    """Why no commit may hold this path, whose directory is that deep; empty when one may."""
    if poses_as_git(path.rpartition(b"/")[2]):
        return "poses as a repository"
    if depth > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} directories deep"
    return "has too long a path" if len(path) > MAX_PATH else ""


def refuse(refused: Mapping[bytes, str]) -> None:
    """ExportRefused, which names every path that cannot become part of a commit, if there are any."""
    if refused:
        listed = [f"{shown(path)!a} {reason}" for path, reason in refused.items()]
        more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
        paths = [shown(path) for path in refused]
        raise ExportRefused(f"cannot become a commit: {'; '.join(listed[:20])}{more}", paths=paths)


def read_whole(fd: int) -> tuple[str, bytes]:
    """Mode and content of an open file as git would keep them; closes it. Refused when it is none that can be kept."""
    with os.fdopen(fd, "rb", buffering=0) as file:
        about = os.fstat(fd)
        content = file.read(about.st_size + 1) if about.st_size <= MAX_BYTES else b""
    if about.st_size > MAX_BYTES:
        raise Refused(f"is larger than {MAX_BYTES >> 20} MiB")
    if len(content) != about.st_size:
        raise Refused("changes while it is read")
    return "100755" if about.st_mode & 0o100 else "100644", content


def kept(pack: Pack, mode: str, content: bytes, *, old: Entry | None) -> Entry:
    """What a commit shall hold for a file or link; its content goes into the pack unless it is the old one."""
    oid = pack.name("blob", content)
    if old is None or old.oid != oid:
        pack.add("blob", content)
    return Entry(kept_mode(mode, old=old), oid)


def kept_mode(mode: str, *, old: Entry | None) -> str:
    """Old repositories hold modes such as 100664: untouched means untouched."""
    same = old is not None and old.mode[:3] == mode[:3] and int(old.mode, 8) & 0o100 == int(mode, 8) & 0o100
    return old.mode if old is not None and same else mode


def committed(pack: Pack, tree: str, *, parent: str, message: str, at: float) -> Change:
    """Complete the pack with the one commit that holds this tree."""
    who = f"{NAME} <{EMAIL}> {max(0, int(at))} +0000"
    text = message.replace("\0", "\N{REPLACEMENT CHARACTER}").strip() + "\n"
    about = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{text}"
    return Change(commit=pack.add("commit", about.encode("utf-8", "replace")), tree=tree)


def take_in(git: Git, pack: Pack) -> None:
    """Give new objects to the repository, in a thread; git checks trees and commits strictly before it keeps them."""
    command = ("unpack-objects", "-q") if len(pack) <= _FEW else ("index-pack", "--stdin")
    try:
        git.stream(*command, "--strict", input=pack.finish(), read=lambda said: said.read())
    except GitError as error:
        raise ExportRefused(f"git refuses what was left: {error.stderr}") from error
