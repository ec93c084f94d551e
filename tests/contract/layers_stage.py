"""Where layers are compared with plain copies: a trusted repository, directories that pose as layers, and a kernel."""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.contract.overlay_stage import Kernel, Op

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.basket import Basket
from resolvent.adapters.workspace.export import Harvest, take_in
from resolvent.adapters.workspace.files import opened, remove_tree
from resolvent.adapters.workspace.harvest import Exported, Stack, export
from resolvent.adapters.workspace.objects import GITLINK, Entry, Listing, Pack
from resolvent.adapters.workspace.rules import Rules
from resolvent.adapters.workspace.scratch import Scratch
from resolvent.adapters.workspace.trees import Trees
from resolvent.adapters.workspace.view import Node as Seen
from resolvent.adapters.workspace.view import View

Node = tuple[str, bytes]
AT = 1_700_000_000.5


class Bench:
    """A trusted repository, with layers beside it."""

    def __init__(self, top: Path, *, hash: str = "sha1") -> None:
        self.top = top
        self.git = Git(top / "repo.git")
        init = ["git", "init", "-q", "--bare", "--template=", f"--object-format={hash}", str(self.git.git_dir)]
        subprocess.run(init, check=True)
        self._scratch = Scratch(top / "scratch")
        self._zero = "0" * (64 if hash == "sha256" else 40)

    def commit(self, files: Mapping[bytes, Node]) -> str:
        """A commit of exactly these files."""
        with tempfile.TemporaryFile() as file:
            pack = Pack(file, like=self._zero)
            entries = {
                path: Entry(mode, content.decode() if mode == GITLINK else pack.add("blob", content))
                for path, (mode, content) in files.items()
            }
            tree = pack.add_trees(entries, known=frozenset())
            who = "someone <someone> 1 +0000"
            made = pack.add("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nby hand\n".encode())
            take_in(self.git, pack)
        return made

    def export(self, *layers: Path, base: str, commit: str = "") -> Exported:
        """What the layers over the tree of a commit become."""
        stack = Stack(layers, base=base, commit=commit or base)
        with self._scratch() as scratch:
            return export(self.git, stack, message="m", at=AT, scratch=scratch)

    def export_of_copy(self, copy: Path, *, commit: str) -> Exported:
        """What the plain workspace makes of the same files."""
        listed = self.git.stream("ls-tree", "-r", "-t", "-z", "--full-tree", commit, read=lambda said: said.read())
        with self._scratch() as scratch, tempfile.TemporaryFile() as file, Trees(self.git) as trees:
            basket = Basket(Pack(file, like=commit))
            rules = Rules(self.git, trees=trees, commit=commit, work_tree=scratch)
            harvest = Harvest(Listing.parse(listed), rules, basket)
            with rules, opened(copy) as work:
                harvest.walk(work)
            change = harvest.commit(parent=commit, message="m", at=AT)
            if change:
                take_in(self.git, basket.pack)
            return Exported(change, basket.skipped)

    def tree(self, commit: str) -> dict[bytes, Node]:
        """What a commit holds, with the bytes of every file."""
        held: dict[bytes, Node] = {}
        with Trees(self.git) as trees:
            todo = [(b"", trees.top(commit))]
            while todo:
                above, oid = todo.pop()
                for name, entry in trees.rows(oid).items():
                    if entry.mode == "40000":
                        todo.append((above + name + b"/", entry.oid))
                    else:
                        content = entry.oid.encode() if entry.mode == GITLINK else trees.blob(entry.oid)
                        held[above + name] = entry.mode, content
        return held


class KernelBench(Bench):
    """The same beside a kernel that mounts the layers."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        (top / "layers").mkdir()
        self.kernel = Kernel(top / "layers")
        self._count = 0

    def names(self, count: int) -> list[str]:
        """Fresh layers."""
        self._count += count
        names = [f"l{self._count - number}" for number in range(count)]
        self.kernel.make(*names)
        return names

    def base(self, files: Mapping[bytes, Node]) -> tuple[str, str]:
        """A commit, and the layer that holds its tree."""
        (name,) = self.names(1)
        self.kernel.plain(name, [_laid(path, node) for path, node in files.items()])
        return self.commit(files), name

    def stacked(self, base: str, layers: Sequence[Sequence[Op]]) -> list[str]:
        """Layers as the kernel leaves them after these operations, the topmost first, over a base."""
        names = self.names(len(layers))
        for number in reversed(range(len(layers))):
            self.kernel.change(names[number], [*names[number + 1 :], base], layers[number])
        return names


def walk(view: View) -> Iterator[Seen]:
    """Everything the layers hold, a directory before what is in it."""
    todo = view.entries(view.top)[::-1]
    while todo:
        node = todo.pop()
        yield node
        if node.kind == "directory":
            todo.extend(reversed(view.entries(node)))


@contextmanager
def kernel_bench(top: Path) -> Iterator[KernelBench]:
    """A bench in a fresh directory, which is gone afterwards."""
    bench = KernelBench(Path(tempfile.mkdtemp(dir=top)))
    try:
        yield bench
    finally:
        bench.kernel.close()
        remove_tree(bench.top)


def _laid(path: bytes, node: Node) -> Op:
    mode, content = node
    if mode == GITLINK:
        return ("directory", path)
    return ("link", path, content) if mode == "120000" else ("write", path, content, int(mode[3:], 8))
