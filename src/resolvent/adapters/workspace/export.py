"""Export: read what an agent left as data, and make one commit of it. No git ever looks at an agent's files."""

import os
from dataclasses import dataclass, field

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.basket import Basket, Refused, read_whole, refusal
from resolvent.adapters.workspace.checkout import EMAIL, NAME
from resolvent.adapters.workspace.files import listed, open_file, opened
from resolvent.adapters.workspace.objects import GITLINK, LINK, Entry, Listing, Pack
from resolvent.adapters.workspace.rules import Rules
from resolvent.domain.change import Change
from resolvent.errors import ExportRefused, GitError

# As git's own transfers: few objects are kept one by one, many as one pack.
_FEW = 100


@dataclass
class Harvest:
    """What a walk through a workspace finds, against what its parent commit holds."""

    parent: Listing
    rules: Rules
    basket: Basket
    found: dict[bytes, Entry] = field(default_factory=dict)

    def walk(self, directory: int, *, above: bytes = b"", depth: int = 0) -> None:
        """Take in everything below an open directory."""
        for entry in sorted(listed(directory), key=lambda entry: entry.name):
            name = os.fsencode(entry.name)
            path = above + name
            # Whatever the agent made of its own repository is no part of the work.
            if depth == 0 and name == b".git":
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            if not self._wanted(path, is_directory=is_directory):
                self.basket.leave(path + b"/" if is_directory else path)
            elif reason := refusal(path, depth=depth):
                self.basket.refuse(path, reason)
            elif is_directory:
                self._enter(directory, entry.name, path=path, depth=depth)
            else:
                self._take(directory, entry, path=path)

    def _wanted(self, path: bytes, *, is_directory: bool) -> bool:
        entry = self.parent.entries.get(path)
        held = path in self.parent.directories or (entry is not None and entry.mode == GITLINK)
        tracked = held if is_directory else entry is not None
        if not tracked:
            self.basket.look(path)
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
                self.basket.leave(path + b"/")

    def _take(self, directory: int, entry: "os.DirEntry[str]", *, path: bytes) -> None:
        if entry.is_symlink():
            self._keep(path, LINK, os.readlink(os.fsencode(entry.name), dir_fd=directory))
            return
        fd = open_file(entry.name, at=directory) if entry.is_file(follow_symlinks=False) else None
        if fd is None:
            # Pipes, sockets and devices hold nothing that could be committed.
            self.basket.leave(path)
            return
        try:
            self._keep(path, *read_whole(fd))
        except Refused as reason:
            self.basket.refuse(path, str(reason))

    def _keep(self, path: bytes, mode: str, content: bytes) -> None:
        self.found[path] = self.basket.keep(path, mode, content, old=self.parent.entries.get(path))

    def commit(self, *, parent: str, message: str, at: float) -> Change | None:
        """Complete the pack with trees and one commit; None when nothing differs."""
        self.basket.check()
        if self.found == self.parent.entries:
            return None
        tree = self.basket.pack.add_trees(self.found, known=self.parent.trees)
        return committed(self.basket.pack, tree, parent=parent, message=message, at=at)


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
        if error.exit < 0:
            # Killed, for want of memory or by somebody: that says nothing of what was left.
            raise
        raise ExportRefused(f"git refuses what was left: {error.stderr}") from error
