"""What CI says on GitHub, answer by answer: check runs, jobs and rules, and the word that a run amounts to. Pure."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

# The page of a job of GitHub's own CI names it and its workflow run.
JOB = re.compile(r"/actions/runs/(\d+)/job/(\d+)")
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


def app_of(id: int | None) -> int | None:
    """The App that must report a check; None: whoever does."""
    return id if id is not None and id > 0 else None
