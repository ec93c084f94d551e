"""What CI says on GitHub, answer by answer: check runs, jobs and rules, and the word that a run amounts to. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

# The page of a job of GitHub's own CI names it and its workflow run.
JOB = re.compile(r"/actions/runs/(\d+)/job/(\d+)")
# The required names, each with the Apps that must report it; none: whoever does.
Names = dict[str, frozenset[int]]
_WORST = ("failed", "pending", "passed")
_PASSED = ("success", "neutral", "skipped")


class App(BaseModel):
    id: int | None = None
    slug: str | None = None


class Output(BaseModel):
    title: str | None = None
    summary: str | None = None
    text: str | None = None


class Run(BaseModel):
    """A check run: githubkit's own model refuses conclusions that GitHub sends, as `stale` and `startup_failure`."""

    id: int
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    details_url: str | None = None
    output: Output = Output()
    app: App | None = None


class Job(BaseModel):
    """A job of a workflow run: a check run of GitHub's own CI, under the same id."""

    id: int
    run_attempt: int = 1


class Context(BaseModel):
    context: str
    integration_id: int | None = None


class Parameters(BaseModel):
    required_status_checks: list[Context] = []


class Rule(BaseModel):
    """A rule of a branch, of which there are many kinds and ever more."""

    type: str
    parameters: dict[str, Any] | None = None


@dataclass(frozen=True)
class Word:
    """The latest word under one name: a check run's, or a status's."""

    name: str
    state: Literal["pending", "passed", "failed"]
    url: str
    run: Run | None = None
    text: str = ""


def run_word(run: Run) -> Word:
    """What a check run says, as GitHub counts it where the check is required."""
    state: Literal["pending", "passed", "failed"] = "pending"
    if run.status == "completed":
        state = "passed" if run.conclusion in _PASSED else "failed"
    # The page of the check, which for GitHub's own CI names its job.
    urls: list[str] = [url for url in (run.html_url, run.details_url) if url]
    url = next((url for url in urls if JOB.search(url)), urls[0] if urls else "")
    said = filter(None, (run.output.title, run.output.summary, run.output.text))
    return Word(run.name, state, url, run=run, text="\n\n".join(said))


def counted(runs: Iterable[Run], statuses: Iterable[Word], names: Names) -> dict[str, Word]:
    """The word that counts under each name: of every App its latest run, and of those and a status the worst.

    Where Apps must report it, each of them must have, and what others say does not count.
    """
    latest: dict[str, dict[int, Run]] = {}
    for run in runs:
        by, of = run.app.id or 0 if run.app else 0, latest.setdefault(run.name, {})
        if by not in of or run.id >= of[by].id:
            of[by] = run
    found: dict[str, list[Word]] = {}
    for status in statuses:
        if not names.get(status.name):
            found.setdefault(status.name, []).append(status)
    for name, of in latest.items():
        found.setdefault(name, []).extend(run_word(of[by]) for by in sorted(of) if by in (names.get(name) or of))
    for name, apps in names.items():
        if apps - latest.get(name, {}).keys():
            found.setdefault(name, []).append(Word(name, "pending", ""))
    return {name: min(found[name], key=lambda word: _WORST.index(word.state)) for name in names if found.get(name)}


def app_of(id: int | None) -> frozenset[int]:
    """The App that must report a check; none: whoever does."""
    return frozenset((id,) if id is not None and id > 0 else ())
