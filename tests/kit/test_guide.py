"""The examples of the guide are run as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.contract.boxed import trouble
from tests.kit.real import program

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "testing.md"


def examples() -> dict[str, Any]:
    """Everything the guide's Python defines, from top to bottom as one file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    told: dict[str, Any] = {}
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), told)
    return told


NAMES = re.findall(r"^async def (test_\w+)", GUIDE.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("name", NAMES)
async def test_an_example_of_the_guide_runs(name: str, tmp_path: Path) -> None:
    program("codex")
    if "claude" in name:
        program("claude")
        if trouble():
            pytest.skip(trouble())
    await examples()[name](tmp_path)


def test_the_guide_has_examples_and_none_of_them_leaves_a_port_open() -> None:
    assert len(NAMES) == 3
    model = examples()["model"]
    assert model.url.startswith("http://127.0.0.1:")
    with model:
        pass
