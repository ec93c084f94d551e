"""Which lines of a shell script tell that a watched line was executed, and which tell that it may have been."""

import re

_WORDS = frozenset(
    ("", "{", "}", "(", ")", "then", "else", "fi", "do", "done", "esac", ";;", "in", "};", "fi;", "done;")
)
_FUNCTION = re.compile(r"(?:function[ \t]+[\w:.-]+|[\w:.-]+[ \t]*\([ \t]*\))")
_GOES_ON = ("\\", "|", "&&", "||", "(")


def counting(text: str, asked: frozenset[int]) -> tuple[frozenset[int], frozenset[int], bool]:
    """The lines of the watched commands, all lines of the functions they are in, and whether all are in functions.

    Only simple commands give an event, and where they begin is bash's own affair. So the silence of one line says
    nothing; the silence of a whole function says that nobody called it.
    """
    lines = text.split("\n")
    told = {number for number in asked if 0 < number <= len(lines) and _is_told(lines[number - 1])}
    functions = _functions(lines)
    near, certain = set[int](), "<<" not in text and "DEBUG" not in text
    for number in sorted(told):
        body = next((body for body in functions if body.start - 1 <= number < body.stop), range(0))
        near.update(body)
        certain = certain and bool(body)
    exact = {one for number in told if not _FUNCTION.match(lines[number - 1]) for one in _joined(lines, number)}
    return frozenset(exact), frozenset(near), certain


def _is_told(line: str) -> bool:
    bare = line.strip()
    return bare not in _WORDS and not bare.startswith("#")


def _functions(lines: list[str]) -> list[range]:
    """The lines between the head of a function and the first line after it that begins with its end."""
    found: list[range] = []
    begun = 0
    for number, line in enumerate(lines, 1):
        if begun and line[:1] in ("}", ")"):
            found.append(range(begun + 1, number))
            begun = 0
        elif not begun and _FUNCTION.match(line) and "}" not in line:
            begun = number
    return found


def _joined(lines: list[str], number: int) -> range:
    """The lines that are one command with this one."""
    first = last = number
    while first > 1 and lines[first - 2].rstrip().endswith(_GOES_ON):
        first -= 1
    while last < len(lines) and lines[last - 1].rstrip().endswith(_GOES_ON):
        last += 1
    return range(first, last + 1)
