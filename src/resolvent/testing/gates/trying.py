"""Run a script of the corpus on a tree with nothing of the engine between: who judges the gate must not lean on it."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from resolvent.adapters.agents.command import PATH
from resolvent.domain.change import Check, Execution, Reproducer, execution_of


def missing(language: str, program: str) -> str:
    """Why bugs of a language cannot be tried on this machine; empty when they can."""
    return "" if shutil.which(program, path=PATH) else f"there is no {program} here, which {language} needs"


def laid(directory: Path, tree: Mapping[str, str]) -> Path:
    """Write files below a directory."""
    for path, text in tree.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    return directory


async def executed(directory: Path, script: Reproducer) -> tuple[Execution, str]:
    """What a script says of the tree in a directory, into which it is laid; and what it printed."""
    laid(directory, {file.path: file.text for file in script.files})
    exit, output, ended = await commanded(directory, script.command, limit_s=script.timeout_s)
    check = Check.reproducing(script, "corpus")
    return execution_of(check, exit=exit, output=output, ended=ended), output


async def commanded(directory: Path, command: str, *, limit_s: float = 60.0) -> tuple[int, str, bool]:
    """The exit status and output of a shell command, and whether it ended by itself."""
    # Byte code that was written within the same second as another version of a file would be taken for its own.
    environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=directory,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        return 124, "", False
    return process.returncode or 0, printed.decode("utf-8", "replace"), True
