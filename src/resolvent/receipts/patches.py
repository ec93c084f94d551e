"""A patch cut into files and lines, for people: bounded, whatever its size."""

from collections.abc import Iterator

from resolvent.domain.model import Value

MOST_FILES = 200
MOST_LINES = 1500
MOST_IN_ALL = 8000
MOST_COLUMNS = 1000
_KINDS = {"+": "added", "-": "removed", "@": "place", "\\": "note"}


class Line(Value):
    """One line of a patch, and what it is."""

    kind: str
    text: str


class PatchedFile(Value):
    """What a patch does to one file; `left_out` lines of it are not shown."""

    name: str
    added: int = 0
    removed: int = 0
    lines: tuple[Line, ...] = ()
    left_out: int = 0


class Patch(Value):
    """The files of a patch; `left_out` of them are not shown at all."""

    files: tuple[PatchedFile, ...] = ()
    left_out: int = 0


def cut(patch: str) -> Patch:
    """The patch as git prints it, by file."""
    groups = list(_groups(patch))
    room, files = MOST_IN_ALL, []
    for lines in groups[:MOST_FILES]:
        file = _file(lines, most=min(room, MOST_LINES))
        room -= len(file.lines)
        files.append(file)
    return Patch(files=tuple(files), left_out=max(0, len(groups) - MOST_FILES))


def _groups(patch: str) -> Iterator[list[str]]:
    """The lines of each file, from its `diff` line on."""
    group: list[str] = []
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            if group:
                yield group
            group = []
        if line or group:
            group.append(line)
    if group:
        yield group


def _file(lines: list[str], *, most: int) -> PatchedFile:
    begin = next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines))
    head, body = lines[:begin], lines[begin:]
    while body and not body[-1]:
        body.pop()
    # What is said before the first place: names, modes, that it is binary.
    notes = [line for line in head[1:] if line and not line.startswith(("index ", "--- ", "+++ "))]
    shown = [Line(kind="note", text=line[:MOST_COLUMNS]) for line in notes]
    shown += [Line(kind=_KINDS.get(line[:1], "same"), text=line[:MOST_COLUMNS]) for line in body]
    return PatchedFile(
        name=_name(head),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        lines=tuple(shown[:most]),
        left_out=max(0, len(shown) - most),
    )


def _name(head: list[str]) -> str:
    """The file's name afterwards, or before when it is gone, as git writes it."""
    for sign, side in (("+++ ", "b/"), ("--- ", "a/")):
        for line in head:
            name = line.removeprefix(sign).split("\t")[0].strip('"')
            if line.startswith(sign) and name != "/dev/null":
                return name.removeprefix(side)
    return head[0].removeprefix("diff --git ").rpartition(" b/")[2].strip('"') if head else ""
