"""The real claude and the real codex, run plainly against a scripted model: no box, no adapter, nothing of ours."""

import asyncio
import importlib.util
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from resolvent.testing.model import ScriptedModel

PROGRAMS = ("claude", "codex")
_BUNDLED = {"claude": ("claude_agent_sdk", "_bundled/claude"), "codex": ("codex_cli_bin", "bin/codex")}
_PATH = "/usr/local/bin:/usr/bin:/bin"


def program(name: str) -> str:
    """Its path: in the packages of this interpreter, or in the search path; skipped, by name, where it is missing."""
    package, inside = _BUNDLED[name]
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / inside).is_file():
            return str(Path(place) / inside)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make agents")
    return found


@dataclass(frozen=True)
class Ran:
    """How it ended and what it printed."""

    name: str
    exit: int
    events: tuple[dict[str, Any], ...]
    errors: str

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def well(self) -> bool:
        """It says itself that it ended well."""
        ended = self.last["type"] == "result" and not self.last["is_error"]
        return self.exit == 0 and (ended or self.last["type"] == "turn.completed")

    @property
    def said(self) -> str:
        """Its last words."""
        if self.name == "claude":
            return str(self.last.get("result", ""))
        words = [item["text"] for item in self.items("agent_message")]
        return str(words[-1]) if words else str(self.last.get("error"))

    @property
    def answer(self) -> Any:
        """What it gave after a schema."""
        return self.last.get("structured_output") if self.name == "claude" else json.loads(self.said)

    @property
    def session(self) -> str:
        return str(next(event.get("session_id") or event.get("thread_id") for event in self.events))

    def items(self, kind: str) -> list[dict[str, Any]]:
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == kind]


@dataclass(frozen=True)
class Program:
    """One of the two, at home in a place of its own and working in another."""

    name: str
    model: ScriptedModel
    home: Path
    work: Path

    @classmethod
    def at(cls, place: Path, name: str, model: ScriptedModel) -> "Program":
        home, work = place / f"{name}-home", place / "work"
        for directory in (home, work):
            directory.mkdir(parents=True, exist_ok=True)
        return cls(name, model, home, work)

    async def run(
        self,
        prompt: str,
        *,
        key: str = "",
        schema: dict[str, Any] | None = None,
        resume: str = "",
        slug: str = "gpt-5.5",
    ) -> Ran:
        """Give it a prompt and let it end by itself."""
        argv = self.argv(schema=schema, resume=resume, slug=slug)
        started = await self.start(prompt, argv, key=key)
        printed, errors = await started.communicate()
        events = tuple(json.loads(line) for line in printed.splitlines())
        return Ran(self.name, started.returncode or 0, events, errors.decode())

    async def start(self, prompt: str, argv: list[str], *, key: str = "") -> asyncio.subprocess.Process:
        """Start it; the prompt is on its standard input."""
        asked = self.home / "prompt"
        asked.write_text(prompt, encoding="utf-8")
        environ = {"PATH": _PATH, "HOME": str(self.home), "TMPDIR": str(self.home), "CODEX_HOME": str(self.home)}
        environ |= {"CLAUDE_CONFIG_DIR": str(self.home), "CLAUDE_CODE_MAX_RETRIES": "1"}
        environ |= self.model.environment(self.name, key=key)
        with asked.open("rb") as stdin:
            return await asyncio.create_subprocess_exec(
                *argv,
                cwd=self.work,
                env=environ,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=64 << 20,
            )

    def argv(self, *, schema: dict[str, Any] | None = None, resume: str = "", slug: str = "gpt-5.5") -> list[str]:
        """The words it is started with."""
        if self.name == "claude":
            words = [program("claude"), "-p", "--output-format", "stream-json", "--verbose"]
            words += ["--permission-mode", "acceptEdits", "--allowedTools", "Bash", "Write", "Edit"]
            words += ["--json-schema", json.dumps(schema)] if schema else []
            return words + (["--resume", resume] if resume else [])
        (self.home / "config.toml").write_text(self.model.codex_config(slug, retries=1), encoding="utf-8")
        # Its own walls want programs beside its home, which it refuses to put there under /tmp.
        words = [program("codex"), "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access"]
        if schema:
            (self.home / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
            words += ["--output-schema", str(self.home / "schema.json")]
        return [*words, *(["resume", resume] if resume else []), "-"]
