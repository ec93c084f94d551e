"""A repository as big as people have them, made from a seed: sources that are tracked, and artefacts that are not."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

KIB, MIB = 1 << 10, 1 << 20
IGNORE = b"/build/\n"
AUTHOR = b"Bench <bench@localhost> 1767603600 +0000"
SEED = 3


class Size(NamedTuple):
    """How much there is of it."""

    name: str
    # Tracked files, with the `.gitignore`; and artefacts, which it ignores.
    sources: int
    artefacts: int
    # Of one artefact.
    artefact_bytes: int
    # Of a source, in the mean.
    source_bytes: int = 7 * KIB
    # What the whole measurement needs on the disk.
    room_bytes: int = 0

    @property
    def files(self) -> int:
        return self.sources + self.artefacts


LARGE = Size("large", 98_000, 2_001, 750 * KIB, room_bytes=10 << 30)
SMALL = Size("small", 1_960, 41, 750 * KIB, room_bytes=1 << 30)
# How far the upstream moves in a day or so.
MOVED = 20


class Tree(NamedTuple):
    """The repository with everything in it, and the commit that its upstream came to meanwhile."""

    directory: Path
    size: Size
    bytes: int
    head: str
    moved: str


def make(directory: Path, size: Size) -> Tree:
    """Write it all down, commit the sources, and leave a checkout whose index is warm."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", "--initial-branch=main")
    chance = random.Random(SEED)
    pool = _words(chance)
    taken = _commit(directory, size, chance=chance, pool=pool)
    (directory / "build").mkdir()
    noise = chance.randbytes(4 * MIB)
    for number in range(size.artefacts):
        place = directory / f"build/{number % 40:02}"
        place.mkdir(exist_ok=True)
        at = chance.randrange(len(noise) - size.artefact_bytes)
        (place / f"{number:04}.o").write_bytes(noise[at : at + size.artefact_bytes])
    # Reads every file once: as with a checkout that people work in, the next look is quick.
    git(directory, "reset", "--quiet")
    head, moved = (git(directory, "rev-parse", name) for name in ("main", "upstream"))
    return Tree(directory, size, taken + size.artefacts * size.artefact_bytes, head, moved)


def git(directory: Path, *command: str) -> str:
    """What git says there."""
    ended = subprocess.run(["git", "-C", str(directory), *command], check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout.strip()


def _commit(directory: Path, size: Size, *, chance: random.Random, pool: bytes) -> int:
    """Write every source to the disk and to git's own stream alike; the bytes they take."""
    taken = 0
    command = ["git", "-C", str(directory), "-c", "core.compression=1", "fast-import", "--quiet", "--depth=0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        importing.stdin.write(b"commit refs/heads/main\nmark :1\ncommitter %s\ndata 4\nmain\n" % AUTHOR)
        for path, content in _sources(size, chance, pool):
            importing.stdin.write(b"M 644 inline %s\ndata %d\n%s\n" % (path, len(content), content))
            place = os.path.join(os.fsencode(directory), path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(content)
            taken += len(content)
        importing.stdin.write(b"commit refs/heads/upstream\ncommitter %s\ndata 5\nmoved\nfrom :1\n" % AUTHOR)
        for number in range(MOVED):
            content = b"moved %d\n" % number
            importing.stdin.write(b"M 644 inline %s\ndata %d\n%s\n" % (_path(number * 7), len(content), content))
    assert importing.returncode == 0, importing.returncode
    return taken


def _sources(size: Size, chance: random.Random, pool: bytes) -> Iterator[tuple[bytes, bytes]]:
    yield b".gitignore", IGNORE
    for number in range(size.sources - 1):
        path = _path(number)
        # Most are small, a few are long.
        length = min(int(chance.expovariate(1 / size.source_bytes)), 40 * size.source_bytes)
        at = chance.randrange(len(pool) - length)
        yield path, b"# %s\n%s\n" % (path, pool[at : at + length])


def _path(number: int) -> bytes:
    """Directories of about fifty files, three deep."""
    return b"src/%02d/part%03d/file%05d.py" % (number // 2_450, number // 49, number)


def _words(chance: random.Random) -> bytes:
    """Text that packs about as well as sources do."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 12))) for _ in range(3_000)]
    ends = (" ", " ", " ", " = ", "(", "):\n    ", "\n", ", ")
    return "".join(chance.choice(words) + chance.choice(ends) for _ in range(400_000)).encode()
