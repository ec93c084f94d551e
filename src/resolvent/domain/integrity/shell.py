"""The rules for shell scripts and bats files, line by line."""

import re
from collections import Counter
from collections.abc import Iterator

from resolvent.domain.integrity.altered import Altered, Hit, shown
from resolvent.domain.integrity.cases import Assertion, Case, Skip
from resolvent.domain.integrity.kinds import is_test

_BATS = re.compile(r"@test\s+(['\"]?)(.{1,300}?)\1\s*\{\s*$")
_FUNCTION = re.compile(r"(?:function\s+)?(test[\w-]{0,200})\s*\(\)\s*\{?\s*$")
_SETUP = re.compile(r"(?:function )?setup(?:_file|_suite)?(?: ?\(\))? ?\{?$")
_COMPARES = (" == ", " = ", " -eq ", " =~ ", " != ", " -ne ", " -ge ", " -gt ", " -le ", " -lt ")
_STRENGTH = {"==": 6.0, "=": 6.0, "-eq": 6.0, "=~": 3.0, "!=": 2.0, "-ne": 2.0}
_HOLDS = ("assert", "refute", "grep", "diff ", "cmp ", "fail", "expect", "!", "exit 1", "return 1")
_NOTHING = frozenset(("true", ":", "[ 1 -eq 1 ]", "[ 1 = 1 ]", "[[ 1 == 1 ]]", "test 1"))


def bare(line: str) -> str:
    """A line without its comment, and with nothing inside of its quotes."""
    kept: list[str] = []
    quote = ""
    escaped = False
    for char in line:
        if escaped:
            escaped = False
        elif quote:
            if char == quote:
                quote = ""
                kept.append(char)
        elif char == "\\":
            escaped = True
        elif char in "'\"":
            quote = char
            kept.append(char)
        elif char == "#" and (not kept or kept[-1] in " \t;"):
            break
        else:
            kept.append(char)
    return "".join(kept).strip()


def shell_cases(path: str, text: str) -> list[Case]:
    """The tests of a script: its bats tests and test functions; of one without these, the script as a whole."""
    lines = text.splitlines()
    starts = [(number, name) for number, line in enumerate(lines) if (name := _opens(line))]
    found = []
    for place, (number, name) in enumerate(starts):
        last = starts[place + 1][0] if place + 1 < len(starts) else len(lines)
        end = next((at for at in range(number + 1, last) if lines[at].startswith("}")), last)
        found.append(_case(path, name, lines[number + 1 : end], number + 1))
    return found or [_case(path, path.rpartition("/")[2], lines, 0)]


def _opens(line: str) -> str:
    # Only the start of a line is looked at, and only so much of it as a name takes.
    match = _BATS.match(line.strip()[:400]) or _FUNCTION.match(line.strip()[:400])
    return match[match.lastindex or 1] if match else ""


def _case(path: str, name: str, lines: list[str], before: int) -> Case:
    held: list[Assertion] = []
    skips: list[Skip] = []
    alive = []
    for number, raw in enumerate(lines, before + 1):
        line = raw.strip()
        code = bare(raw)
        if not code or code in ("{", "}"):
            continue
        if code == "skip" or code.startswith("skip "):
            skips.append(Skip("skip", "" if not raw[4:5].isspace() or before else "a condition", number))
        if code in ("exit 0", "return 0", "return", "exit") and raw[:1] != "\t" and _level(raw) <= _level(lines[0]):
            break
        alive.append(" ".join(line.split()))
        if one := _held(line, code):
            held.append(one._replace(path=path, line=number, source=line))
    return Case(path, name, max(before, 1), tuple(held), tuple(skips), "\n".join(alive))


def _level(line: str) -> int:
    return len(line) - len(line.lstrip())


def _held(line: str, code: str) -> Assertion | None:
    if " ".join(code.split()) in _NOTHING or code.endswith(("|| true", "|| :")):
        return Assertion("always", line, strength=0.0)
    start = code.removeprefix("if ").removeprefix("! ").removeprefix("run ")
    if start.startswith(("[ ", "[[ ", "test ")):
        inner = line[line.index(start[:2]) :].partition(" ")[2].partition(" ]")[0].strip()
        for sign in _COMPARES:
            left, found, right = inner.partition(sign)
            if found:
                rated = _STRENGTH.get(sign.strip(), 3.0)
                return Assertion(sign.strip(), left, right, rated, literal="$" not in right, shape="")
        return Assertion("check", inner.removeprefix("-n ").removeprefix("-z "), strength=1.0)
    held = code.startswith(_HOLDS) or "|| exit 1" in code or "|| fail" in code or "|| return 1" in code
    return Assertion("line", " ".join(line.split())) if held else None


def shell_hits(file: Altered) -> list[Hit]:
    """Hits for failures that a script newly lets pass."""
    if file.new is None:
        return []
    known = Counter(what for what, _, _ in _passes(file.old or "", tests=is_test(file.path)))
    hits = []
    for what, number, line in _passes(file.new, tests=is_test(file.path)):
        known[what] -= 1
        skips = what in ("exit 0", "skip")
        if known[what] < 0 and (not skips or file.old is not None):
            rule = "skipped-test" if skips else "swallowed-exception"
            text = f"{shown(line)} is new: what fails there no longer counts."
            hits.append(Hit(rule=rule, path=file.path, line=number, text=text))
    if file.old is not None and _strict(file.old) and not _strict(file.new):
        text = "The script no longer stops at the first command that fails."
        hits.append(Hit(rule="swallowed-exception", path=file.path, line=1, text=text))
    return hits


def _passes(text: str, *, tests: bool) -> Iterator[tuple[str, int, str]]:
    lines = text.splitlines()
    strict = max((number for number, raw in enumerate(lines, 1) if raw.strip().startswith("set -e")), default=0)
    in_setup = False
    for number, raw in enumerate(lines, 1):
        code = bare(raw)
        squeezed = " ".join(code.split()).rstrip(";")
        in_setup = (in_setup and not raw.startswith("}")) or bool(_SETUP.match(squeezed))
        # In shipped scripts it is common to let a search or a clean-up fail.
        usual = not tests and ("$(" in code or squeezed.startswith(("grep", "rm ", "kill", "pkill", "wait")))
        if squeezed.endswith(("|| true", "|| :", "|| exit 0", "|| return 0")) and not usual:
            yield "|| true", number, raw
        elif squeezed == "set +e" and (tests or strict < number):
            yield "set +e", number, raw
        elif squeezed.startswith("trap") and squeezed.endswith("ERR") and tests:
            yield "trap", number, raw
        elif tests and in_setup and squeezed.split(" ")[0] == "skip":
            yield "skip", number, raw
        elif tests and ("exit 0" in squeezed.split("; ") or squeezed.endswith("exit 0")):
            yield "exit 0", number, raw


def _strict(text: str) -> bool:
    codes = [bare(line) for line in text.splitlines()]
    return any(code.startswith("set -") and "e" in code.split()[1] for code in codes if len(code.split()) > 1)
