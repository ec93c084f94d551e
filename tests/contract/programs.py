"""The programs that supervise jobs, with one of them changed."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from resolvent.adapters.jobs import spawning


def change_program(patch: pytest.MonkeyPatch, place: Path, name: str, change: Callable[[str], str]) -> None:
    """From now on jobs are supervised by programs of which this one was changed."""
    shutil.copytree(spawning.PROGRAMS, place, ignore=shutil.ignore_patterns("__pycache__"))
    source = place / f"{name}.py"
    changed = change(source.read_text())
    assert changed != source.read_text()
    source.write_text(changed)
    patch.setattr(spawning, "PROGRAMS", place)


async def readable(descriptor: int) -> None:
    """Wait until there is something to read, or, of a process, until it ended."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
