"""Parts of a change that can be taken out one by one, and how few of them still do the job."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from pydantic import Field

from resolvent.domain.model import Value

T = TypeVar("T")
# Which parts, by their places; rising.
_Places = tuple[int, ...]


class Hunk(Value):
    """A part of a change that can be taken out by itself: some lines of a file, or all of what happened to it.

    Lines are counted as in `@@ -a,b +c,d @@`. A text file that came or went has the lines it holds; whatever else is
    whole has none. One that stands beside hunks of the same file that are not whole is the change of its mode.
    """

    # As `Repository.changed_paths` names it.
    path: str
    old_start: int = Field(default=0, ge=0)
    old_lines: int = Field(default=0, ge=0)
    new_start: int = Field(default=0, ge=0)
    new_lines: int = Field(default=0, ge=0)
    # Added, deleted, binary, mode, link, submodule, or too large to look into: all or nothing.
    whole: bool = False


async def fewest(parts: Sequence[T], needed: Callable[[tuple[T, ...]], Awaitable[bool]], *, most: int) -> tuple[T, ...]:
    """Parts that do the job and of which none can be left out, or the fewest found when `most` questions were asked.

    `needed` says whether some of the parts do the job alone; all of them are known to. The same parts and answers
    lead to the same questions, and none is asked twice.
    """
    kept: _Places = tuple(range(len(parts)))
    known = {kept: True}
    pieces = 2
    while kept:
        for fewer, then in _tries(kept, pieces):
            if fewer not in known:
                # What is known holds all of the parts too, which nobody was asked about.
                if len(known) > most:
                    return tuple(parts[place] for place in kept)
                known[fewer] = await needed(tuple(parts[place] for place in fewer))
            if known[fewer]:
                kept, pieces = fewer, then
                break
        else:
            if pieces >= len(kept):
                break
            pieces *= 2
    return tuple(parts[place] for place in kept)


def _tries(kept: _Places, pieces: int) -> Iterator[tuple[_Places, int]]:
    """What to try in place of `kept`: each of its pieces, then all but one; and into how many to cut what did it."""
    pieces = min(pieces, len(kept))
    ends = [len(kept) * number // pieces for number in range(pieces + 1)]
    cuts = list(pairwise(ends))
    if pieces > 1:
        for begin, end in cuts:
            yield kept[begin:end], 2
    for begin, end in cuts:
        yield kept[:begin] + kept[end:], max(pieces - 1, 2)
