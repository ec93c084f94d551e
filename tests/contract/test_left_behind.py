"""What tools leave in a workspace is no part of a change, unless the repository says that it is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.boxed import MEMORY, emptied_later
from tests.contract.workspace_stage import ADAPTERS, Name, Node, Stage, staged, text

LEFT = {
    "__pycache__/a.cpython-311.pyc": b"1",
    "src/__pycache__/b.cpython-311.pyc": b"2",
    "old.pyc": b"3",
    "node_modules/left/pad.js": b"4",
    ".pytest_cache/README.md": b"5",
    "src/new.py": b"6",
}


@pytest.fixture(params=ADAPTERS)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    with emptied_later(MEMORY) as directory:
        stage = await staged(request.param, directory)
        yield stage
        await stage.close()


def leave(work: Path) -> None:
    for name, content in LEFT.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(content)


async def exported(stage: Stage, base: dict[Name, Node]) -> tuple[set[bytes], tuple[str, ...]]:
    branch = await stage.workspace.root(await stage.commit(base), id="r")
    await stage.inside(branch, leave)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change is not None
    return set(await stage.tree(change)) - {name.encode() for name in base if isinstance(name, str)}, (
        stage.workspace.ignored(branch)
    )


@pytest.mark.parametrize("rules", [{}, {".gitignore": text("*.log\n")}])
async def test_what_tools_leave_behind_is_named_and_not_committed(stage: Stage, rules: dict[Name, Node]) -> None:
    taken, left = await exported(stage, {"src/a.py": text("a\n"), **rules})
    assert taken == {b"src/new.py"}
    assert set(left) == {"__pycache__/", "src/__pycache__/", "old.pyc", "node_modules/", ".pytest_cache/"}


async def test_a_repository_that_wants_it_or_tracks_it_has_it(stage: Stage) -> None:
    tracked: dict[Name, Node] = {
        "src/__pycache__/b.cpython-311.pyc": text("old\n"),
        ".gitignore": text("!node_modules/\n"),
    }
    taken, left = await exported(stage, tracked)
    assert taken == {b"src/new.py", b"node_modules/left/pad.js"}
    assert "src/__pycache__/b.cpython-311.pyc" not in left
