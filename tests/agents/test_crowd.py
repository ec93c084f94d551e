"""Many real agents at once, and whoever supervises them dies: nothing is lost, and nothing is started twice."""

import asyncio
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from resolvent.testing.model import Conversation, ScriptedModel
from resolvent.testing.model.playbook import by_step

from .scene import NOTHING_TO_DO, Scene, real_agents, staged, worker

EACH = 8


class Gate:
    """A model that gives nobody a second answer before somebody opened it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._open = False

    def play(self, conversation: Conversation, step: int) -> dict[str, Any]:
        if step == 0:
            return {"bash": "echo seen > seen.txt; cat README.md | head -3"}
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._open, 200)
        return {"structured": NOTHING_TO_DO}

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()

    async def reached(self, count: int) -> None:
        """Wait until so many stand before it."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: self._waiting >= count, 150)

        assert await asyncio.to_thread(wait), f"only {self._waiting} of {count} agents asked again"


async def ended(process: "subprocess.Popen[bytes]") -> int:
    return await asyncio.to_thread(process.wait, 150)


def resident(*processes: int) -> int:
    """Bytes that these processes and all below them have in memory."""
    total, todo = 0, list(processes)
    while todo:
        pid = todo.pop()
        try:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(child) for child in children.read_text().split()]
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def supervisors(scene: Scene) -> list[int]:
    started = scene.state.glob("jobs/*/started")
    return [int(json.loads(path.read_text())["pid"]) for path in started]


@real_agents
@pytest.mark.timeout(300)
async def test_sixteen_agents_at_once_all_end_correctly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    gate = Gate()
    with ScriptedModel(by_step({"analyze": gate.play})) as model:
        settings = (f"limits.agents = {EACH}", f"limits.runs = {EACH}")
        scenes = [await staged(tmp_path / name, model, *settings, roles=(name, name)) for name in ("claude", "codex")]
        runs = {scene.directory.name: [await scene.submit() for _ in range(EACH)] for scene in scenes}
        workers = [worker(scene) for scene in scenes]
        # All sixteen wait for their second answer at the same time.
        await gate.reached(2 * EACH)
        taken = resident(*(pid for scene in scenes for pid in supervisors(scene)))
        gate.open()
        assert [await ended(one) for one in workers] == [0, 0]
        for scene in scenes:
            journal = await scene.app.home.journal()
            for run in runs[scene.directory.name]:
                assert (await scene.app.document(run))["outcome"] == "declined"
                (job,) = await journal.jobs(run)
                # No event is lost: the tool was called and answered, and both are in the transcript.
                listener = scene.app.home.agent((await scene.app.run(run)).inputs.agents["writer"]).listener()
                lines = scene.app.home.jobs().output(job.id).read_bytes().splitlines()
                kinds = [moment.kind for line in lines for moment in listener.hear(line)]
                assert kinds.count("tool_call") >= 1 and kinds.count("tool_call") == kinds.count("tool_result")
            await scene.app.home.close()
    with capfd.disabled():
        print(f"\n16 real agents at once: {taken / (1 << 20):.0f} MiB")


@real_agents
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_killed_worker_finds_its_eight_agents_again_and_starts_none_twice(tmp_path: Path, agent: str) -> None:
    gate = Gate()
    with ScriptedModel(by_step({"analyze": gate.play})) as model:
        scene = await staged(tmp_path, model, f"limits.agents = {EACH}", f"limits.runs = {EACH}", roles=(agent, agent))
        runs = [await scene.submit() for _ in range(EACH)]
        first = worker(scene)
        await gate.reached(EACH)
        first.kill()
        await ended(first)
        jobs = scene.app.home.jobs()
        ids = sorted(path.name for path in (scene.state / "jobs").glob("*.ask.*"))
        assert len(ids) == EACH and all(jobs.running(id) for id in ids)
        second = worker(scene)
        gate.open()
        assert await ended(second) == 0
        assert [(await scene.app.document(run))["outcome"] for run in runs] == ["declined"] * EACH
        await scene.app.home.close()
    assert sorted(path.name for path in (scene.state / "jobs").glob("*.ask.*")) == ids
    assert len([seen for seen in model.asked if seen.step == 0]) == EACH
