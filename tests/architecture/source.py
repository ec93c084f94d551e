"""The source as the architecture tests see it: modules, their trees and their functions."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "resolvent"
# A project of its own that the demo works on: it is what a user would bring, not our code.
SAMPLE = PACKAGE / "testing" / "sample"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(path for path in PACKAGE.rglob("*.py") if SAMPLE not in path.parents))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            yield node


def lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@cache
def kept_files() -> tuple[Path, ...]:
    """Every text file that is or would be committed."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = [part for part in listed.stdout.decode("utf-8", "surrogateescape").split("\0") if part]
    return tuple(ROOT / one for one in sorted(set(names)) if (ROOT / one).is_file())
