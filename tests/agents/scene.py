"""The real programs in real boxes on the sample project; only the model behind them is scripted."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.agents.programs import CLAUDE, CODEX, Wanted
from resolvent.app import App
from resolvent.domain.entry import Entry
from resolvent.domain.events import Recorded
from resolvent.submissions import Submission
from resolvent.testing.demo import make_sample, sample_issue
from resolvent.testing.model import ScriptedModel
from resolvent.working import Session
from tests.contract.boxed import trouble

# Planted: whatever happens, these must be found in no file.
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-planted-7f3c1d", "OPENAI_API_KEY": "sk-oai-planted-9a2b4e"}
OTHER = {"RELEASE_PASSWORD": "planted-in-the-daemon-55d0"}

# The smallest run there is: somebody looked, and nothing is to do.
NOTHING_TO_DO = {"verdict": "INVALID", "reason": "it works as it says"}


def missing(*wanted: Wanted) -> str:
    """Which programs the tests cannot run here, and how to get them."""
    lacking = [one.name for one in wanted if not (shutil.which(one.name) or importlib.util.find_spec(one.package))]
    return f"{', '.join(lacking)}: not installed (make test installs them)" if lacking else ""


real_agents = pytest.mark.skipif(bool(trouble() or missing(CLAUDE, CODEX)), reason=trouble() or missing(CLAUDE, CODEX))


@dataclass(frozen=True)
class Scene:
    """One sample project, its state, and the model that all agents ask."""

    directory: Path
    app: App
    model: ScriptedModel

    @property
    def state(self) -> Path:
        return self.app.home.state

    async def submission(self) -> Submission:
        """What is asked for on a new issue."""
        forge = await self.app.home.local_forge()
        await forge.sync(self.app.home.repository)
        issue = await forge.create_issue(*sample_issue(), author="customer")
        return Submission(entry=Entry(kind="issue", reference=str(issue.number)))

    async def submit(self) -> str:
        """Queue a run on a new issue."""
        return (await self.app.submit(await self.submission()))[0].id

    async def resolve(self) -> dict[str, Any]:
        """What came of a run."""
        return await self.go_on(await self.submit())

    async def go_on(self, run: str) -> dict[str, Any]:
        await Session(self.app.home).follow(run)
        return await self.app.document(run)

    async def events(self, run: str, kind: str) -> list[Recorded]:
        every = await (await self.app.home.journal()).events(run)
        return [one for one in every if one.event.event == kind]


def environment(directory: Path) -> dict[str, str]:
    """What a worker of the scene has around it: keys and a secret that nobody must ever see again."""
    own = {"PATH": os.environ["PATH"], "HOME": str(directory), "RESOLVENT_HOME": str(directory / "state")}
    return own | KEYS | OTHER


async def staged(
    directory: Path, model: ScriptedModel, *settings: str, roles: Sequence[str] = ("claude", "codex")
) -> Scene:
    """A new sample project whose agents ask the model."""
    project = await make_sample(directory / "sample")
    said = [f'agents.writer = "{roles[0]}"', f'agents.reader = "{roles[1]}"', *settings]
    said += [f'agents.claude.endpoint = "{model.url}"', f'agents.codex.endpoint = "{model.url}/v1"']
    # In a file, for other processes work on it too.
    (project / "resolvent.local.toml").write_text("\n".join(said) + "\n")
    return Scene(directory, App.at(project, environ=environment(directory)), model)


def worker(scene: Scene) -> "subprocess.Popen[bytes]":
    """Another process that works on all that is queued."""
    command = (sys.executable, "-m", "tests.agents.worker", str(scene.app.home.repository))
    environ = environment(scene.directory) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, env=environ)


def files_that_hold(place: Path, *secrets: str) -> list[str]:
    """Every file below the place that holds one of the words, whatever kind of file it is."""
    words, found = [secret.encode() for secret in secrets], []
    for directory, _, names in os.walk(place):
        for name in names:
            path = Path(directory, name)
            if path.is_file() and not path.is_symlink() and any(word in path.read_bytes() for word in words):
                found.append(str(path.relative_to(place)))
    return found
