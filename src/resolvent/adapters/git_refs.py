"""The refs of a bare repository of ours, read as the files they are: a git for it takes ten times as long."""

import asyncio
import os
import re
from pathlib import Path

from resolvent.adapters.git import Git

_LOOSE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n?")
_PACKED = re.compile(rb"^([0-9a-f]{40,64}) (refs/[^\n]+)$", re.M)


async def refs_of(git: Git, *under: str) -> dict[str, str]:
    """Name → object of every ref that begins so, sorted; `under` are refs, or directories with a slash at the end.

    Whatever is not plainly so, git is asked about.
    """
    found = await asyncio.to_thread(_plain, git.git_dir, under)
    if found is not None:
        return found
    said = await git("for-each-ref", "--format=%(objectname) %(refname)", *under)
    pairs = (line.split(" ", 1) for line in said.decode("utf-8", "surrogateescape").splitlines())
    return {name: id for id, name in pairs}


def _plain(git_dir: Path, under: tuple[str, ...]) -> dict[str, str] | None:
    """None when refs are kept in another way, or one of them is no plain one."""
    if (git_dir / "reftable").exists():
        return None
    loose: dict[str, str] = {}
    for top in under:
        for path in _files(git_dir / top):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            said = _LOOSE.fullmatch(content)
            if said is None:
                return None
            loose[_text(os.fsencode(path.relative_to(git_dir)))] = said[1].decode()
    # After the loose ones: git removes those only when they are packed, so none can be missed in between.
    packed = {_text(name): id.decode() for id, name in _PACKED.findall(_packed(git_dir))}
    every = {name: id for name, id in packed.items() if name.startswith(under)} | loose
    return {name: every[name] for name in sorted(every, key=os.fsencode)}


def _files(top: Path) -> list[Path]:
    if top.is_file():
        return [top]
    return [
        Path(directory, name)
        for directory, _, names in os.walk(top)
        for name in names
        # Somebody is writing it; until then the ref is as it was.
        if not name.endswith(".lock")
    ]


def _packed(git_dir: Path) -> bytes:
    try:
        return (git_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return b""


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
