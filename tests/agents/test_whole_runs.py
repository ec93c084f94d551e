"""From an issue to a proven pull request, with the real programs."""

import shutil
import sys
from glob import glob
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


def goose() -> str:
    """The one agent that speaks ACP which the tests can install, where npm is there."""
    places = glob(f"{sys.prefix}/npm/node_modules/@aaif/goose-binary-*/bin/goose")
    return shutil.which("goose") or next(iter(places), "")


@real_agents
@pytest.mark.skipif(not goose(), reason="goose: not installed (scripts/npm-agents installs it where npm is there)")
async def test_an_agent_that_speaks_acp_takes_a_bug_to_a_proven_pull_request(tmp_path: Path) -> None:
    with DemoModel() as model:
        variables = {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "{model}",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_OFF": "1",
            "OPENAI_HOST": "{endpoint}",
            "OPENAI_API_KEY": "{key}",
        }
        said = [f'agents.goose.variables.{name} = "{value}"' for name, value in variables.items()]
        said += ['agents.goose.use = "acp"', f'agents.goose.command = ["{goose()}", "acp"]']
        said += [f'agents.goose.endpoint = "{model.url}"', 'agents.goose.key = "$OPENAI_API_KEY"']
        scene = await staged(tmp_path, model, *said, 'agents.goose.model = "gpt-5"', roles=("goose", "claude"))
        document = await scene.resolve()
        jobs = await (await scene.app.home.journal()).jobs(document["run"])
        await scene.app.home.close()
    assert document["outcome"] == "proven", document["reason"]
    assert {job.name for job in jobs if job.agent == "goose"} >= {"analyze", "implement", "fix"}
    assert files_that_hold(tmp_path, *KEYS.values(), *OTHER.values()) == []
