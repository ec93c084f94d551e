"""The demo: a sample project with a real bug, and a story that real processes play on it."""

import asyncio
import shutil
import sys
from importlib.resources import as_file, files
from pathlib import Path

from resolvent.errors import UsageError
from resolvent.testing.demo_story import sabotaged, true_story, write_story

SABOTAGES = ("noop", "liar")
_AUTHOR = ("-c", "user.name=Ledger", "-c", "user.email=ledger@example.invalid", "-c", "commit.gpgsign=false")


async def make_sample(directory: Path, *, sabotage: str = "") -> Path:
    """A git repository with the sample project and scripted agents, in an empty place; returns its path."""
    if sabotage and sabotage not in SABOTAGES:
        raise UsageError(f"no sabotage is called {sabotage}", hint=f"one of: {', '.join(SABOTAGES)}")
    project = directory / "ledger"
    if project.exists():
        raise UsageError(
            f"{project} is there already", hint=f"resolvent watch -C {project}, or choose another directory"
        )
    with as_file(files("resolvent.testing") / "sample") as sample:
        shutil.copytree(sample / "project", project, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(sample / "resolvent.toml", project)
    story = write_story(directory / "story.json", sabotaged(sabotage) if sabotage else true_story())
    # Where the story lies is this machine's business, so it is not part of what is committed.
    agent = f'{{ use = "scripted", command = ["{story}"] }}'
    roles = f'[agents]\nwriter = "author"\nreader = "reviewer"\nauthor = {agent}\nreviewer = {agent}\n'
    (project / "resolvent.local.toml").write_text(roles, encoding="utf-8")
    await _git(project, "init", "-q", "-b", "main")
    await _git(project, "add", "-A")
    await _git(
        project, *_AUTHOR, "commit", "-q", "-m", "Read amounts and split bills", "--date", "2026-01-05T09:00:00Z"
    )
    return project


def sample_issue() -> tuple[str, str]:
    """The issue of the demo: title and body."""
    text = (files("resolvent.testing") / "sample" / "issue.md").read_text(encoding="utf-8")
    title, _, body = text.removeprefix("# ").partition("\n")
    return title, body.strip()


async def _git(project: Path, *words: str) -> None:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(project),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_COMMITTER_DATE": "2026-01-05T09:00:00Z",
    }
    process = await asyncio.create_subprocess_exec("git", *words, cwd=project, env=environment, stderr=sys.stderr)
    if await process.wait() != 0:
        raise UsageError(f"git {words[0]} failed in {project}", hint="git --version")
