"""What the agents of several jobs said, as one text for whoever reads words and no events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from resolvent.adapters.agents.lines import lines_of, plain
from resolvent.domain.transcript import FileChanged, Moment, Noticed, Said, ToolCalled
from resolvent.ports import Listener

# How much of its end is read at first: whoever polls an agent at work wants its last words, not the whole file.
FIRST_LOOK = 1 << 20
SHOWN_CALL = 160
# The bytes of UTF-8 that begin no character.
_INNER = bytes(range(0x80, 0xC0))


@dataclass(frozen=True)
class Printed:
    """A file with what one process printed; `listener` makes what hears it, where it holds events and not words."""

    path: Path
    listener: Callable[[], Listener] | None = None
    # Lines that are no events, too: a program that could not do its work may say why in them.
    beside: bool = False

    def end(self, characters: int) -> str:
        """The last of it; nothing when there is no such file."""
        if self.listener is None:
            # No character takes more than four bytes.
            return _end_of(self.path, 4 * characters).decode(errors="replace")[-characters:]
        look, told = FIRST_LOOK, ""
        while len(told) < characters:
            told = "".join(self._told(self.listener(), look))
            if look >= _size(self.path):
                break
            look *= 8
        return told[-characters:]

    def _told(self, listener: Listener, last: int) -> Iterator[str]:
        for line in lines_of(self.path, last):
            moments = listener.hear(line) if line is not None else ()
            yield from (f"{words}\n" for moment in moments if (words := _words(moment)))
            if line and self.beside and not moments and not line.lstrip().startswith(b"{"):
                yield f"{plain(line.decode(errors='replace')).rstrip()}\n"


def joined(printed: Sequence[Printed], characters: int) -> str:
    """One after the other, each from a new line; of their end only as many characters as are wanted."""
    pieces: list[str] = []
    room = characters
    for one in reversed(printed):
        if room <= 0:
            break
        pieces.insert(0, one.end(room))
        room -= len(pieces[0])
    lines = [piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces[:-1] if piece]
    return "".join((*lines, *pieces[-1:]))[-characters:]


def _words(moment: Moment) -> str:
    """What it said as it is; what it did in one line that can be taken for nothing it said."""
    match moment:
        case Said(text=text):
            return text.rstrip("\n")
        case ToolCalled(tool=tool, input=given):
            return _line(f"→ {tool}  {given}")
        case FileChanged(path=path):
            return _line(f"✎ {path.removeprefix('/workspace/')}")
        case Noticed(text=text):
            return _line(f"● {text}")
    return ""


def _line(text: str) -> str:
    # Cut first: what a tool is given may be a whole file.
    found = " ".join(plain(text[: 8 * SHOWN_CALL]).split())
    return found if len(found) <= SHOWN_CALL else f"{found[: SHOWN_CALL - 1]}…"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _end_of(path: Path, room: int) -> bytes:
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - room))
            piece = stream.read(room)
            # A cut may fall inside a character: the rest of it is none.
            return piece[:3].lstrip(_INNER) + piece[3:] if size > room else piece
    except FileNotFoundError:
        return b""
