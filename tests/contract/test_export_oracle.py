"""Export against git itself: for friendly files of any shape, our tree is the one `git add -A` makes."""

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.boxed import MEMORY, emptied_later
from tests.contract.workspace_stage import ADAPTERS, Name, Node, Stage, staged

PARTS = st.sampled_from(["a", "b", "a.b", "a-", "a0", "A", "build", "x.log", ".hid", "é"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
NODES = st.one_of(
    st.tuples(st.sampled_from(["100644", "100755"]), st.binary(max_size=20)),
    st.tuples(st.just("120000"), st.sampled_from([b"a", b"../b", b"/etc", b"missing"])),
)
RULES = st.lists(
    st.sampled_from(
        ["build", "build/", "*.log", "!x.log", "/a", "a/*", "!a/b", "**/b", "a.?", ".*", "# no", "\\#", "b/**/a"]
    ),
    max_size=5,
)


def without_clashes(files: dict[str, Node]) -> dict[Name, Node]:
    """No file below a file."""
    return {
        path: node
        for path, node in files.items()
        if not any("/".join(path.split("/")[:count]) in files for count in range(1, path.count("/") + 1))
    }


TREES = st.dictionaries(PATHS, NODES, max_size=12).map(without_clashes)


def lay_out(work: Path, files: dict[Name, Node]) -> None:
    """Make a branch hold exactly these files."""
    for entry in work.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for name, (mode, content) in files.items():
        path = work / str(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if mode == "120000":
            path.symlink_to(content.decode())
        else:
            path.write_bytes(content)
            path.chmod(int(mode[3:], 8))


async def compared(adapter: str, before: dict[Name, Node], after: dict[Name, Node], rules: list[str]) -> None:
    with emptied_later(MEMORY) as directory:
        stage: Stage = await staged(adapter, directory)
        ignored: dict[Name, Node] = {".gitignore": ("100644", "\n".join(rules).encode())}
        base = await stage.commit(before | ignored)
        branch = await stage.workspace.root(base, id="r")
        await stage.inside(branch, lambda work: lay_out(work, after | ignored))
        expected = await stage.as_git_would(branch)
        change = await stage.workspace.export(branch, message="m", at=1)
        assert (change.tree if change else base.tree) == expected
        child = await stage.workspace.fork(branch, id="f")
        assert await stage.files(child) == await stage.files(branch)
        if change:
            check = await stage.workspace.root(change, id="c")
            assert await stage.files(check) == await stage.tree(change)
        await stage.close()


@pytest.mark.spec("B3")
@settings(max_examples=25, deadline=None)
@given(before=TREES, after=TREES, rules=RULES, adapter=st.sampled_from(sorted(ADAPTERS)))
def test_an_export_is_the_tree_git_would_make(
    before: dict[Name, Node], after: dict[Name, Node], rules: list[str], adapter: str
) -> None:
    asyncio.run(compared(adapter, before, after, rules))
