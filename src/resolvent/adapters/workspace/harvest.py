"""Harvest: what a stack of layers changed, as one commit. The cost is that of the changes, not of the repository."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.basket import Basket, Refused, kept_mode, read_whole, refusal
from resolvent.adapters.workspace.export import committed, take_in
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.objects import GITLINK, LINK, Entry, Pack
from resolvent.adapters.workspace.rules import Rules
from resolvent.adapters.workspace.trees import Trees, is_tree, written
from resolvent.adapters.workspace.view import Node, View
from resolvent.domain.change import Change
from resolvent.errors import ExportRefused


@dataclass(frozen=True)
class Stack:
    """A branch as data: layers over a tree of ours."""

    # The `up` directories of all layers above the tree, topmost first.
    layers: tuple[Path, ...]
    # The commit whose tree lies below them.
    base: str
    # The commit the branch stands at: what is tracked and what is ignored is read from it, and it becomes the parent.
    commit: str


class Exported(NamedTuple):
    """One commit, or None when nothing differs; and which paths were left out of it, as far as they are named."""

    change: Change | None
    skipped: tuple[str, ...]


def export(git: Git, stack: Stack, *, message: str, at: float, scratch: Path) -> Exported:
    """Make one commit of what a branch shows, in a thread; ExportRefused when it holds what no commit may."""
    with translated(), Trees(git) as trees, (scratch / "pack").open("w+b") as file:
        basket = Basket(Pack(file, like=stack.commit))
        rules = Rules(git, trees=trees, commit=stack.commit, work_tree=scratch / "rules")
        old = trees.top(stack.commit)
        with rules:
            harvest = _Harvest(View(stack.layers), trees, rules, basket)
            try:
                tree = harvest.gather(base=trees.top(stack.base), old=old)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ExportRefused("the layers of the branch are gone, or change while they are read") from error
        basket.check()
        if tree == old:
            return Exported(None, basket.skipped)
        change = committed(basket.pack, tree, parent=stack.commit, message=message, at=at)
        take_in(git, basket.pack)
        return Exported(change, basket.skipped)


class _Place(NamedTuple):
    """One path seen three ways: what the layers make of it, what lies below them, and what the commit holds."""

    path: bytes
    layered: Node | None
    below: Entry | None
    old: Entry | None

    @property
    def is_directory(self) -> bool:
        if self.layered is not None:
            return self.layered.kind == "directory"
        # A submodule is laid out as an empty directory.
        return is_tree(self.below) or _is_submodule(self.below)

    @property
    def tracked(self) -> bool:
        if self.is_directory:
            return is_tree(self.old) or _is_submodule(self.old)
        return self.old is not None and not is_tree(self.old)


class _Harvest:
    """A walk through what a branch shows, side by side with what its commit holds."""

    def __init__(self, view: View, trees: Trees, rules: Rules, basket: Basket) -> None:
        self._view = view
        self._trees = trees
        self._rules = rules
        self._basket = basket
        self._pack = basket.pack

    def gather(self, *, base: str, old: str) -> str:
        """The tree of everything that is shown and wanted."""
        top = _Place(b"", self._view.top, Entry("40000", base), Entry("40000", old))
        return self._directory(top, depth=0) or self._pack.add("tree", b"")

    def _directory(self, place: _Place, *, depth: int) -> str | None:
        """The tree of one directory; None when nothing of it is wanted."""
        old = self._trees.rows(_tree(place.old))
        rows: dict[bytes, Entry] = {}
        for name, (layered, below) in self._shown(place).items():
            # Whatever the agent made of its own repository is no part of the work.
            if depth or name != b".git":
                path = place.path + b"/" + name if place.path else name
                entry = self._entry(_Place(path, layered, below, old.get(name)), depth=depth)
                if entry is not None:
                    rows[name] = entry
        if rows == old:
            return _tree(place.old)
        return self._pack.add("tree", written(rows)) if rows else None

    def _shown(self, place: _Place) -> dict[bytes, tuple[Node | None, Entry | None]]:
        """What a directory shows by name, sorted: from the layers, or where they say nothing from below."""
        layered, below = place.layered, self._trees.rows(_tree(place.below))
        nodes = {node.name: node for node in self._view.entries(layered)} if layered is not None else {}
        if layered is not None and layered.opaque:
            below = {}
        return {
            name: (nodes.get(name), below.get(name))
            for name in sorted({*nodes, *below})
            if name not in nodes or nodes[name].kind != "whiteout"
        }

    def _entry(self, place: _Place, *, depth: int) -> Entry | None:
        if place.layered is None and place.below == place.old:
            return place.old
        path = place.path
        if not place.tracked:
            self._basket.look(path)
        if not (place.tracked or not self._rules.ignore(path, directory=place.is_directory)):
            self._basket.leave(path + b"/" if place.is_directory else path)
        elif reason := refusal(path, depth=depth):
            self._basket.refuse(path, reason)
        elif place.is_directory:
            return self._below(place, depth=depth)
        elif place.layered is not None:
            return self._take(place.layered, old=place.old)
        elif place.below is not None:
            mode = LINK if place.below.mode == LINK else "100755" if int(place.below.mode, 8) & 0o100 else "100644"
            return Entry(kept_mode(mode, old=place.old), place.below.oid)
        return None

    def _below(self, place: _Place, *, depth: int) -> Entry | None:
        if _is_submodule(place.old):
            # A submodule is another repository's work: it stays at its commit, and what was put there is named.
            if self._shown(place):
                self._basket.leave(place.path + b"/")
            return place.old
        tree = self._directory(place, depth=depth + 1)
        if tree is None or tree == _tree(place.old):
            return place.old if tree else None
        return Entry("40000", tree)

    def _take(self, node: Node, *, old: Entry | None) -> Entry | None:
        if node.kind == "link":
            return self._basket.keep(node.path, LINK, self._view.link(node), old=old)
        fd = self._view.opened(node)
        if fd is None:
            # Pipes, sockets and devices hold nothing that could be committed.
            self._basket.leave(node.path)
            return None
        try:
            return self._basket.keep(node.path, *read_whole(fd), old=old)
        except Refused as reason:
            self._basket.refuse(node.path, str(reason))
            return None


def _is_submodule(entry: Entry | None) -> bool:
    return entry is not None and entry.mode == GITLINK


def _tree(entry: Entry | None) -> str | None:
    return entry.oid if entry is not None and is_tree(entry) else None
