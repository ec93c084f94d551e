"""Python tests read by their lines, for files in a dialect that does not parse here."""

from resolvent.domain.integrity.altered import readable
from resolvent.domain.integrity.cases import Assertion, Case, Skip

_HOLDS = ("assert", "self.assert", "with pytest.raises", "with self.assert", "self.fail", "pytest.fail", "raise Assert")


def line_cases(path: str, text: str) -> list[Case]:
    """Every function whose name starts with `test`, with the lines in it that hold something."""
    if not readable(text):
        return []
    found: list[tuple[str, int, list[Assertion], list[Skip]]] = []
    marks: list[Skip] = []
    level = -1
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        deep = len(raw) - len(raw.lstrip())
        if line.startswith("@"):
            marks += [Skip(line, "", number)] if "skip" in line or "xfail" in line else []
        elif line.startswith(("def test", "async def test")):
            name = line.removeprefix("async ").removeprefix("def ").partition("(")[0]
            found.append((name, number, [], marks))
            marks, level = [], deep
        elif line and not line.startswith("#") and found and deep > level >= 0:
            _take(path, line, number, found[-1])
        elif line and deep <= level:
            level, marks = -1, []
    return [Case(path, name, number, tuple(held), tuple(skips), "def") for name, number, held, skips in found]


def _take(path: str, line: str, number: int, into: tuple[str, int, list[Assertion], list[Skip]]) -> None:
    held = " ".join(line.split())
    if line.startswith(_HOLDS) and held not in ("assert True", "assert 1"):
        into[2].append(Assertion("line", held, path=path, line=number, source=line))
    elif "skip" in line.lower() and line.startswith(("pytest.skip", "self.skipTest", "raise")):
        into[3].append(Skip(held, "", number))
