"""Rows to write into a journal, and other processes that write into it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from resolvent.domain.change import Change, Check, Evidence, Expect, File
from resolvent.domain.finding import Finding
from resolvent.domain.record import AgentChoice, EffectRow, Frozen, JobRow, RunRow, StepRow
from resolvent.domain.subject import Issue
from resolvent.domain.verdicts import Claim

COMMIT = "a" * 40
HOSTILE = (
    'O\'Brien "quoted" %s %(name)s :name \\ ; DROP TABLE runs; -- '
    "\0 \ud800\udfff \U000f0000\U000f000000000 é 漢 \r\n\t\x1b"
)


def frozen(title: str = "It breaks", **prompts: str) -> Frozen:
    return Frozen(
        issue=Issue(number=7, title=title),
        base=Change(commit=COMMIT, tree="b" * 40),
        base_branch="main",
        agents={"writer": AgentChoice(name="claude", use="command", command=("agent",))},
        prompts=prompts,
    )


def a_run(id: str = "run-1", *, created_at: float = 1000.0, **fields: Any) -> RunRow:
    known = {"playbook": "resolve", "subject": "issue-7", "title": "It breaks", "inputs": frozen()}
    return RunRow.model_validate({**known, "id": id, "created_at": created_at, "updated_at": created_at, **fields})


def a_step(id: str = "run-1/ask:analyze@1#1", **fields: Any) -> StepRow:
    known = {"run": "run-1", "key": "ask:analyze@1", "verb": "ask", "name": "analyze", "title": "Analyse"}
    return StepRow.model_validate({**known, "id": id, "started_at": 1.0, **fields})


def a_job(id: str = "job-1", **fields: Any) -> JobRow:
    return JobRow.model_validate({"id": id, "run": "run-1", "step": "s", "name": "analyze", **fields})


def an_effect(id: str = "effect-1", **fields: Any) -> EffectRow:
    known = {"run": "run-1", "kind": "comment", "target": "issue-7", "marker": "<!-- m -->"}
    return EffectRow.model_validate({**known, "id": id, **fields})


def an_evidence(id: str = "evidence-1", **fields: Any) -> Evidence:
    check = Check(
        name="test", kind="reproducer", command="pytest", files=(File(path="t.py", text="x"),), expect=Expect(exit=1)
    )
    known = {"check": check, "on": COMMIT, "exit": 1, "seconds": 0.5, "digest": "d", "log": "l", "branch": "b"}
    return Evidence.model_validate({**known, "id": id, "execution": "SHOWN", **fields})


def a_finding(id: str = "finding-1", **fields: Any) -> Finding:
    claim = Claim(severity="P0", description="bad", code_evidence="x:1", reachability="yes", blast_radius="all")
    return Finding.model_validate({"id": id, "claim": claim, **fields})


class Child:
    """Another process, which runs a few lines and talks over its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def says(self) -> str:
        """Its next line; empty when it is gone."""
        assert self._process.stdout
        return (await self._process.stdout.readline()).decode().strip()

    async def go(self) -> None:
        """Let it go on: it waits for a line."""
        assert self._process.stdin
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


_PRELUDE = """
import asyncio, sys
sys.path.insert(0, {here!r})
from tests.contract.journal_stage import *
from resolvent.adapters.journal import connect
from resolvent.adapters.journal.lock import DaemonLock
from resolvent.adapters.journal.store import Store
from resolvent.domain.events import RunResumed
from resolvent.errors import *
URL, ARGUMENT = sys.argv[1:]
def say(word): print(word, flush=True)
def pause(): sys.stdin.readline()
async def main():
"""


@contextlib.asynccontextmanager
async def child(url: str, body: str, argument: str = "") -> AsyncIterator[Child]:
    """Start a process that runs `body`, the lines of an async function; it is killed at the end."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    code = _PRELUDE.format(here=str(Path(__file__).parents[2])) + lines + "asyncio.run(main())\n"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, argument, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
