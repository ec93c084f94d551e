"""Did a check execute a watched line? Tracers are laid beside it, and what they left says so.

The code that is judged runs beside the tracers and may leave whatever mark it likes. A forged `hit` gains it nothing:
with the fix taken out the reproducer has to fail again, and nobody can forge that from inside of a check.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Literal

from resolvent.domain.change import Change, Check
from resolvent.domain.job import JobExit
from resolvent.engine import node_lines, trace_files
from resolvent.engine.statements import Language, Watched, watched
from resolvent.engine.trace_files import TOP
from resolvent.engine.world import World

Reached = Literal["yes", "no", "unknown"]
PRIME = 1073741789
PYTHONS = range(6, 25)
MOST_FILES = 500
KILLED = 128


class Reaching:
    """The watch over one check: what is laid into its private directory, and what it says afterwards."""

    def __init__(self, every: Sequence[Watched], check: Check, *, private: str, inside: str) -> None:
        self._every = every
        self._check = check
        self._private = private
        self._place = f"{inside}/{TOP}"

    @classmethod
    async def over(
        cls, world: World, change: Change, check: Check, *, watch: Mapping[str, Sequence[int]], private: str
    ) -> "Reaching":
        """Look at the watched files as the commit holds them, and lay the tracers out for the check."""
        paths = sorted(watch)[:MOST_FILES]
        contents = await world.repository.contents(change, paths)
        every = [await asyncio.to_thread(watched, path, contents[path], watch[path]) for path in paths]
        reaching = cls(every, check, private=private, inside=world.workspace.inside(private))
        await asyncio.to_thread(trace_files.lay, private, reaching._files())
        return reaching

    @property
    def environment(self) -> dict[str, str]:
        """What makes the interpreters of the check load the tracers."""
        named = {}
        if self._of("python"):
            named["PYTHONUSERBASE"] = f"{self._place}/user"
            # Joined by colons, it cannot hold a directory with one in its name.
            if ":" not in self._place:
                named["PYTHONPATH"] = f"{self._place}/python"
        if self._of("bash"):
            named["BASH_ENV"] = f"{self._place}/bash/lines"
        if self._of("node"):
            named["NODE_V8_COVERAGE"] = f"{self._place}/node"
        return named

    def said(self, exit: JobExit, *, root: str) -> Reached:
        """What the marks say of a check that ended so; `root` is where it found its workspace."""
        per_file = [f"bash.{what}.{number}" for what in ("loaded", "near") for number in range(len(self._every))]
        fixed = [f"{language}.{what}" for language in ("python", "bash") for what in ("began", "hit", "doubt")]
        seen = trace_files.marks(self._private, (*fixed, *per_file))
        node = self._of_node(root)
        if exit.exit > KILLED:
            # Node tells at its end only, and this one may not have come to it.
            node = replace(node, doubt=True)
        if "python.hit" in seen or "bash.hit" in seen or node.hit:
            return "yes"
        counting = [(number, one) for number, one in enumerate(self._every) if one.lines or not one.certain]
        # Stopped before its end, it might have come there yet.
        sure = bool(counting) and exit.ended and not exit.message and len(self._every) < MOST_FILES
        sure = sure and all(one.certain and self._measured(number, one, seen, node) for number, one in counting)
        return "no" if sure else "unknown"

    def _measured(self, number: int, one: Watched, seen: frozenset[str], node: node_lines.Told) -> bool:
        """Nothing of this file can have been executed without our knowing."""
        if one.language == "python":
            return "python.began" in seen and "python.doubt" not in seen and not _escapes(self._check)
        if one.language == "bash":
            # Read by another shell it leaves nothing: only who was seen in it and never near tells.
            return f"bash.loaded.{number}" in seen and not seen & {f"bash.near.{number}", "bash.doubt"}
        return one.language == "node" and not node.doubt and bool(node.documents)

    def _of_node(self, root: str) -> node_lines.Told:
        watching = self._of("node")
        if not watching:
            return node_lines.Told()
        scripts = [node_lines.script(one.path, one.text, one.lines) for one in watching]
        roots = tuple(dict.fromkeys((root, os.path.realpath(root))))
        read = partial(node_lines.told, scripts=scripts, roots=roots)
        return node_lines.together(map(read, trace_files.documents(self._private, "node")))

    def _files(self) -> dict[str, bytes | None]:
        laid: dict[str, bytes | None] = {"seen": None, "node": None}
        if self._of("python"):
            laid |= {name: text.encode() for name, text in self._for_python().items()}
        if self._of("bash"):
            laid |= {f"bash/{number}": one.content for number, one in enumerate(self._every) if one.language == "bash"}
            laid["bash/lines"] = (self._for_bash() + _program("bash_lines.sh")).encode()
        return laid

    def _for_python(self) -> dict[str, str]:
        known: dict[str, list[tuple[str, int, int, list[int], list[str]]]] = {}
        for one in self._of("python"):
            weight = len(one.content), int.from_bytes(one.content, "little") % PRIME
            known.setdefault(one.name, []).append((one.path, *weight, sorted(one.lines), sorted(one.names)))
        folder = f"{self._place}/python"
        begin = (
            "import resolvent_lines, resolvent_site, resolvent_watched as w; resolvent_lines.begin(w.PLACE, w.FILES)"
        )
        laid = {
            "python/resolvent_lines.py": _program("python_lines.py"),
            "python/resolvent_site.py": _program("python_site.py"),
            "python/resolvent_watched.py": f"PLACE = {self._place!a}\nFILES = {known!a}\n",
            "python/sitecustomize.py": f"{begin}\nresolvent_site.stand_aside({folder!a})\n",
        }
        # A command that sets PYTHONPATH finds this way, and one in a virtual environment the other.
        for minor in PYTHONS:
            site = f"user/lib/python3.{minor}/site-packages"
            way = f"import sys; sys.path.insert(0, {folder!a}); {begin}; sys.path.remove({folder!a})"
            laid[f"{site}/resolvent.pth"] = f"{way}; resolvent_site.leave({f'{self._place}/{site}'!a})\n"
        return laid

    def _for_bash(self) -> str:
        """Tables for the tracer; every name in them is of plain characters."""
        names: dict[str, str] = {}
        told = ["{", f"__resolvent_place={_quoted(self._place)}", "__resolvent_tables="]
        told.append("declare -A __resolvent_known __resolvent_names __resolvent_lines __resolvent_near &&")
        told.append("__resolvent_tables=yes")
        for number, one in enumerate(self._every):
            if one.language == "bash" and one.lines:
                names[one.name] = f"{names.get(one.name, '')} {number}"
                told.append(f"__resolvent_lines[{number}]=' {' '.join(map(str, sorted(one.lines)))} '")
                told.append(f"__resolvent_near[{number}]=' {' '.join(map(str, sorted(one.near)))} '")
        told += [f"__resolvent_names[{name}]='{numbers}'" for name, numbers in names.items()]
        return "\n".join((*told, ""))

    def _of(self, language: Language) -> list[Watched]:
        return [one for one in self._every if one.language == language and one.lines]


def _program(name: str) -> str:
    return files("resolvent.engine.tracers").joinpath(name).read_text("utf-8")


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"


def _escapes(check: Check) -> bool:
    """The command itself starts a Python that looks neither at its environment nor at our directory."""
    words = check.command.replace("'", " ").replace('"', " ").replace(";", " ").split()
    before = ""
    for word in words:
        program = before.rpartition("/")[2]
        told = program.startswith(("python", "pypy")) or before.startswith("-")
        if told and word[:1] == "-" and word[1:].isalpha() and set(word[1:]) & set("IESs"):
            return True
        if program == "env" and word.startswith("-"):
            return True
        before = word
    return "PYTHONPATH=" in check.command and any("/bin/" in word for word in words)
