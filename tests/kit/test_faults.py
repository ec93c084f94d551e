"""Each way to fail, as the real programs meet it, and nothing left hanging."""

import asyncio
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.kit.real import PROGRAMS, Program, Ran

from resolvent.testing.model import Conversation, ScriptedModel

both = pytest.mark.parametrize("name", PROGRAMS)
FINE = "It is fine now."


async def meets(place: Path, name: str, fault: dict[str, Any]) -> tuple[Ran, ScriptedModel]:
    with ScriptedModel([{"text": FINE, **fault}]) as model:
        return await Program.at(place, name, model).run("Go on."), model


@both
@pytest.mark.parametrize(
    "fault",
    [
        {"fail": {"status": 500}},
        {"fail": {"status": 529, "retry_after": 0.1}},
        {"cut": {"times": 1}},
        {"malformed": {"kind": "event", "times": 1}},
        {"malformed": {"kind": "html", "times": 1}},
    ],
    ids=["fail", "overloaded", "cut", "broken event", "html"],
)
async def test_what_strikes_once_is_survived_and_the_step_is_the_same_again(
    name: str, fault: dict[str, Any], tmp_path: Path
) -> None:
    ran, model = await meets(tmp_path, name, fault)
    assert (ran.well, ran.said) == (True, FINE)
    assert [(seen.step, seen.fault) for seen in model.asked] == [(0, next(iter(fault))), (0, "")]


@both
@pytest.mark.parametrize(
    "fault",
    [
        {"fail": {"status": 500, "times": "always"}},
        {"fail": {"status": 401, "times": "always"}},
        {"fail": {"status": 400, "type": "context", "times": "always"}},
        {"limit": {"seconds": 600, "kind": "quota"}},
        {"cut": True},
        {"malformed": "json"},
        {"malformed": "event"},
        {"malformed": "bytes"},
        {"malformed": "html"},
    ],
    ids=["500", "401", "too long", "quota", "cut", "no json", "broken event", "bytes", "html"],
)
async def test_what_strikes_always_is_the_end_of_it(name: str, fault: dict[str, Any], tmp_path: Path) -> None:
    ran, model = await meets(tmp_path, name, fault)
    assert not ran.well
    assert FINE not in ran.said
    assert {seen.fault for seen in model.asked} == {next(iter(fault))}


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("claude", {"fail": {"status": 401, "times": "always"}}, "Invalid API key"),
        ("codex", {"fail": {"status": 401, "times": "always"}}, "401 Unauthorized"),
        ("claude", {"fail": {"status": 400, "type": "context", "times": "always"}}, "Prompt is too long"),
        ("codex", {"fail": {"status": 400, "type": "context", "times": "always"}}, "context window"),
        ("claude", {"limit": {"seconds": 600, "kind": "quota"}}, "limit"),
        ("codex", {"limit": {"seconds": 600, "kind": "quota"}}, "usage limit"),
    ],
)
async def test_programs_understand_it_as_what_it_is_meant(
    name: str, fault: dict[str, Any], words: str, tmp_path: Path
) -> None:
    ran, _ = await meets(tmp_path, name, fault)
    assert words in ran.said


@both
async def test_a_limit_holds_as_long_as_it_says_and_no_request_comes_meanwhile(name: str, tmp_path: Path) -> None:
    ran, model = await meets(tmp_path, name, {"limit": {"seconds": 2}})
    refused, answered = model.asked
    assert (ran.said, refused.status, answered.status) == (FINE, 429, 200)
    assert answered.at - refused.at >= 2


@both
async def test_silence_lasts_until_somebody_leaves_and_can_be_waited_for(name: str, tmp_path: Path) -> None:
    with ScriptedModel([{"bash": "true"}, {"hang": True}]) as model:
        agent = Program.at(tmp_path, name, model)
        started = await agent.start("Go on.", agent.argv())
        first, second = await model.requests(2)
        assert (first.step, first.fault, second.step, second.fault) == (0, "", 1, "hang")
        started.kill()
        await started.communicate()
        assert started.returncode != 0


async def test_the_end_of_the_model_is_the_end_of_a_silence(tmp_path: Path) -> None:
    with ScriptedModel([{"hang": True}]) as model:
        # Codex waits for the network for ever where nobody takes its connection.
        agent = Program.at(tmp_path, "claude", model)
        started = await agent.start("Go on.", agent.argv())
        await model.requests(1)
    await started.communicate()
    assert started.returncode != 0


@both
async def test_a_slow_answer_is_still_an_answer(name: str, tmp_path: Path) -> None:
    with ScriptedModel([{"text": FINE, "delay": 0.5, "chunk_delay": 0.01}]) as model:
        ran = await Program.at(tmp_path, name, model).run("Go on.")
        assert ran.said == FINE
        assert time.time() - model.asked[0].at > 0.5


async def test_a_disturbance_strikes_whoever_asks_until_it_ends(tmp_path: Path) -> None:
    with ScriptedModel([{"text": FINE}]) as model:
        agents = [Program.at(tmp_path / name, name, model) for name in PROGRAMS]
        model.disturb({"fail": {"status": 503, "times": "always"}})
        struck = await asyncio.gather(*(agent.run("Go on.") for agent in agents))
        assert [ran.well for ran in struck] == [False, False]
        model.disturb(None)
        well = await asyncio.gather(*(agent.run("Go on.") for agent in agents))
        assert [ran.said for ran in well] == [FINE, FINE]


async def test_requests_that_never_come_are_not_waited_for_for_ever() -> None:
    none = pytest.raises(TimeoutError, match="1 requests were waited for; these came: none")
    with ScriptedModel([{"text": FINE}]) as model, none:
        await model.requests(1, timeout=0.05)


async def test_a_scenario_that_cannot_read_its_own_file_is_told_and_not_taken_for_a_client_that_left() -> None:
    def play(conversation: Conversation, step: int) -> dict[str, str]:
        return {"text": Path("/no/such/file").read_text()}

    with pytest.raises(FileNotFoundError), ScriptedModel(play, toolless=True) as model, pytest.raises(OSError):
        urllib.request.urlopen(f"{model.url}/v1/messages", data=b'{"messages": []}', timeout=30)
