"""A playbook's own prompts, answered by step: the demo's story played by the real programs on the sample project."""

import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from tests.kit.real import PROGRAMS, Program

from resolvent.domain.job import Reply
from resolvent.domain.verdicts import Analysis, Fix, Implementation, Review, Verification
from resolvent.engine.answers import grammar, parse
from resolvent.engine.conversation import ANSWERS
from resolvent.engine.prompts import collect, read, render
from resolvent.errors import UsageError
from resolvent.testing.demo_story import FIX, IMPLEMENT
from resolvent.testing.model import Conversation, DemoModel, Item, ScriptedModel, by_step, story
from resolvent.testing.model.playbook import StepNames

both = pytest.mark.parametrize("name", PROGRAMS)
MODELS = {"analyze": Analysis, "implement": Implementation, "review": Review, "verify": Verification, "fix": Fix}
CLAIM = {"severity": "P1", "description": "d", "code_evidence": "c", "reachability": "r", "blast_radius": "b"}
FINDING = {
    "id": "F1",
    "claim": CLAIM | {"reproducer": {"command": "false"}},
    "rationale": "r",
    "basis": "b",
    "rule": "",
}
INPUTS: dict[str, Any] = {
    "issue": {"url": "", "slug": "o/r#1", "reference": "1", "title": "# Make the change", "body": "# Fix what blocks"},
    "pull": {"number": 7, "url": "u", "head": "h", "head_commit": "c", "title": "t", "body": "b"},
    "base": {"commit": "b" * 40},
    "change": {"commit": "c" * 40},
    "findings": [FINDING | {"origin": "introduced", "on_head": "SHOWN", "on_base": "PASSED"}],
    "design": None,
    "design_comment": "",
    "suggestion": "",
    "reproducer": {"command": "false", "files": []},
    "wanted": 2,
    "refuted": False,
    "since": None,
    "open": [],
    "disputed": [],
    "blockers": [],
    "shown": {},
    "round": 1,
    # Of a design.
    "last": 3,
    "blocker": "",
    "former": "",
    "feedback": "- a gap",
    "pressure": "",
}


def prompt(step: str, **more: Any) -> str:
    """What the engine asks in this step, with the form of the answer behind it."""
    text = render(step, read(step, collect()[step]), INPUTS | more)
    return f"{text}\n## How to answer\n{grammar(MODELS[step])}\n"


def sample(place: Path) -> None:
    with as_file(files("resolvent.testing") / "sample" / "project") as project:
        shutil.copytree(project, place / "work")
    subprocess.run(["git", "init", "-q"], cwd=place / "work", check=True)


@both
async def test_the_story_of_the_demo_is_played_with_the_tools_of_the_program(name: str, tmp_path: Path) -> None:
    sample(tmp_path)
    money = tmp_path / "work/ledger/money.py"
    with DemoModel() as model:
        agent = Program.at(tmp_path, name, model)

        async def answered(step: str, **more: Any) -> Any:
            ran = await agent.run(
                prompt(step, **more), schema=MODELS[step].model_json_schema() if name == "claude" else ANY
            )
            assert ran.well, ran.said
            return MODELS[step].model_validate(ran.answer)

        analysis = await answered("analyze")
        assert (analysis.verdict, bool(analysis.reproducer)) == ("NEED_FIX", True)
        assert (await answered("implement")).mode == "IMPLEMENTATION_SUCCESS"
        assert money.read_text() == IMPLEMENT["write"]["ledger/money.py"]
        assert len((await answered("review")).claims) == 3
        assert (await answered("review", disputed=INPUTS["findings"], shown={"F1": "OK"})).verdict == "NO_P0_P1"
        assert [item.scope for item in (await answered("verify")).triage] == ["FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE"]
        assert (await answered("fix")).mode == "FIX_SUCCESS"
        assert money.read_text() == FIX["write"]["ledger/money.py"]
        assert (await answered("review")).verdict == "NO_P0_P1"
        assert {seen.status for seen in model.asked} == {200}
    tests = subprocess.run(["python3", "-m", "unittest", "-q"], cwd=tmp_path / "work", capture_output=True, check=False)
    assert tests.returncode == 0, tests.stderr


# What OpenAI takes as a strict schema is made elsewhere; here any object will do.
ANY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


@both
async def test_who_is_asked_for_no_schema_answers_in_tokens(name: str, tmp_path: Path) -> None:
    sample(tmp_path)
    with DemoModel() as model:
        ran = await Program.at(tmp_path, name, model).run(prompt("verify"))
    assert parse(Verification, Reply(text=ran.said)).verdict == "IN_SCOPE_P0_P1"


async def test_an_agent_that_lies_leaves_a_note_and_says_it_is_done(tmp_path: Path) -> None:
    sample(tmp_path)
    with DemoModel(sabotage="liar") as model:
        ran = await Program.at(tmp_path, "codex", model).run(prompt("implement"))
    assert "IMPLEMENTATION_SUCCESS" in ran.said
    assert "Thousands separators" in (tmp_path / "work/NOTES.md").read_text()


def conversation(*texts: str) -> Conversation:
    items: list[Item] = []
    for text in texts:
        items += [Item("user", text), Item("assistant", "an answer")]
    return Conversation("messages", "m", "", tuple(items[:-1]), ("Bash",))


@pytest.mark.parametrize("step", sorted(collect()))
def test_every_prompt_says_its_step_whatever_the_issue_says(step: str) -> None:
    text = render(step, read(step, collect()[step]), INPUTS)
    assert StepNames().of(text) == step
    assert StepNames().of(f"<system-reminder>\nbe kind\n</system-reminder>\n{text}") == step


def test_a_repair_turn_is_about_the_step_before_it_and_gets_its_last_answer() -> None:
    play = by_step({"review": [{"bash": "ls"}, {"text": "the review"}], "fix": [{"text": "the fix"}]})
    assert play(conversation(prompt("review")), 0) == {"bash": "ls"}
    assert play(conversation(prompt("review"), "Your last answer could not be read"), 1) == {"text": "the review"}
    form = '| {"properties": {}, "title": "Fix", "type": "object"}'
    assert play(conversation(f"Your last answer could not be read\n{form}"), 0) == {"text": "the fix"}


@pytest.mark.parametrize("model", sorted(ANSWERS))
def test_every_form_of_an_answer_says_a_step(model: str) -> None:
    form = f'Your last answer could not be read\n| {{"properties": {{}}, "title": "{model}"}}'
    assert StepNames().asked(conversation(form)) in collect()


def test_a_prompt_nobody_plays_is_refused_by_name() -> None:
    play = by_step({"review": [{"text": "the review"}]})
    assert "'fix'" in str(play(conversation(prompt("fix")), 0))
    assert "no step of a playbook" in str(play(conversation("Tell me a joke."), 0))


def test_prompts_of_the_repository_itself_name_their_steps(tmp_path: Path) -> None:
    own = tmp_path / ".resolvent/prompts"
    own.mkdir(parents=True)
    (own / "review.md").write_text("---\nrole: reader\n---\n# Look twice\n")
    play = by_step({"review": [{"text": "the review"}]}, repository=tmp_path)
    assert play(conversation("# Look twice\nat this"), 0) == {"text": "the review"}


@pytest.mark.parametrize("scene", [{"step": "review", "wait_for": "x"}, {"step": "dance", "say": "NO"}])
def test_a_scene_that_cannot_be_played_by_a_program_is_refused(scene: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ScriptedModel(story([scene]))
