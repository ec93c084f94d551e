"""From an issue to a proven pull request, with the real programs."""

from pathlib import Path

import pytest

from resolvent.testing.model import DemoModel

from .scene import KEYS, OTHER, files_that_hold, real_agents, staged


@real_agents
@pytest.mark.parametrize("roles", [("claude", "codex"), ("codex", "claude")], ids=" writes, ".join)
async def test_real_agents_take_a_bug_to_a_proven_pull_request(tmp_path: Path, roles: tuple[str, str]) -> None:
    with DemoModel() as model:
        scene = await staged(tmp_path, model, roles=roles)
        document = await scene.resolve()
        run = document["run"]
        jobs = await (await scene.app.home.journal()).jobs(run)
        transcripts = [scene.app.home.jobs().output(job.id).read_text() for job in jobs if job.agent]
        await scene.app.home.close()
    assert document["outcome"] == "proven", document["reason"]
    played = {job.name: job.agent for job in jobs if job.agent}
    assert played["implement"] == played["fix"] == roles[0] and played["review"] == played["verify"] == roles[1]
    # Real tools did it: the sample's file was read, changed and tested by the programs themselves.
    assert any("unittest" in text for text in transcripts)
    assert all(job.usage.input_tokens > 0 and job.usage.usd > 0 for job in jobs if job.agent)
    assert document["cost"]["usd"] == pytest.approx(sum(job.usage.usd for job in jobs))
    assert files_that_hold(tmp_path, *KEYS.values(), *OTHER.values()) == []


@real_agents
async def test_the_key_reaches_the_model_and_nobody_else(tmp_path: Path) -> None:
    key = KEYS["ANTHROPIC_API_KEY"]
    with DemoModel(key=key) as model:
        scene = await staged(tmp_path, model, roles=("claude", "claude"))
        document = await scene.resolve()
        printed = [output.read_text(errors="replace") for output in (scene.state / "jobs").glob("*/output")]
        await scene.app.home.close()
    assert document["outcome"] == "proven", document["reason"]
    assert model.asked and all(seen.key_came for seen in model.asked)
    assert not any(key in text for text in printed) and files_that_hold(tmp_path, key) == []
