"""The real programs do with their own tools what a scenario says in neutral words."""

import asyncio
from pathlib import Path

import pytest
from tests.kit.real import PROGRAMS, Program

from resolvent.testing.model import Conversation, ScriptedModel

both = pytest.mark.parametrize("name", PROGRAMS)
FITS = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["ok", "why"],
    "additionalProperties": False,
}
WORK = [
    {"write": {"path": "{cwd}/a.txt", "content": "one\ntwo\n"}},
    {"bash": "cat a.txt && printf 'three\\n' > b.txt", "expect": "(?i)hello|created|success"},
    {"read": "{cwd}/b.txt", "expect": "one\ntwo"},
    {"edit": {"path": "{cwd}/b.txt", "old": "three\n", "new": "four\n"}},
    {"text": "All done.", "expect": "(?i)updated|success"},
]


@both
async def test_it_writes_runs_reads_edits_and_speaks(name: str, tmp_path: Path) -> None:
    with ScriptedModel(WORK) as model:
        ran = await Program.at(tmp_path, name, model).run("Say hello.")
        assert ran.well, ran
        assert ran.said == "All done."
        assert {path.name: path.read_text() for path in (tmp_path / "work").iterdir()} == {
            "a.txt": "one\ntwo\n",
            "b.txt": "four\n",
        }
        assert [(seen.step, seen.status, seen.unexpected) for seen in model.asked] == [(n, 200, "") for n in range(5)]
        assert {seen.prompt for seen in model.asked} == {"Say hello."}


@both
async def test_an_answer_is_given_after_the_schema_it_was_asked_for(name: str, tmp_path: Path) -> None:
    answer = {"ok": True, "why": "it runs"}
    with ScriptedModel([{"bash": "true"}, {"structured": answer}]) as model:
        ran = await Program.at(tmp_path, name, model).run("Does it run?", schema=FITS)
    assert ran.well
    assert ran.answer == answer


async def test_a_reminder_of_the_program_itself_begins_no_turn(tmp_path: Path) -> None:
    turns: list[tuple[int, int]] = []

    def never(conversation: Conversation, step: int) -> dict[str, str]:
        turns.append((conversation.turns, conversation.turn_steps))
        return {"text": f"no answer {step}"}

    with ScriptedModel(never) as model:
        ran = await Program.at(tmp_path, "claude", model).run("Does it run?", schema=FITS)
    assert ran.answer is None
    assert turns == [(1, 0), (1, 1)]


@both
async def test_thoughts_are_told_apart_from_words(name: str, tmp_path: Path) -> None:
    with ScriptedModel([[{"think": "let me see"}, {"text": "I see."}]]) as model:
        ran = await Program.at(tmp_path, name, model).run("Look.")
    assert ran.said == "I see."
    assert "let me see" in str(ran.events)


@both
async def test_tokens_are_counted_as_the_scenario_says(name: str, tmp_path: Path) -> None:
    usage = {"in": 1200, "cached": 1000, "out": 34}
    with ScriptedModel([{"text": "Counted.", "usage": usage}]) as model:
        told = (await Program.at(tmp_path, name, model).run("Count.")).last["usage"]
    if name == "claude":
        assert (told["input_tokens"], told["cache_read_input_tokens"], told["output_tokens"]) == (200, 1000, 34)
    else:
        assert (told["input_tokens"], told["cached_input_tokens"], told["output_tokens"]) == (1200, 1000, 34)


@both
async def test_a_session_that_is_resumed_goes_on_with_the_next_step(name: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int, str]] = []

    def counting(conversation: Conversation, step: int) -> dict[str, str]:
        seen.append((step, conversation.turns, conversation.turn_steps, conversation.prompt))
        return {"bash": "true"} if conversation.turn_steps == 0 else {"text": f"said {step}"}

    with ScriptedModel(counting) as model:
        agent = Program.at(tmp_path, name, model)
        first = await agent.run("First.")
        second = await agent.run("Second.", resume=first.session)
    assert (first.said, second.said) == ("said 1", "said 3")
    assert seen == [(0, 1, 0, "First."), (1, 1, 1, "First."), (2, 2, 0, "Second."), (3, 2, 1, "Second.")]


@both
async def test_the_scenario_is_named_by_the_prompt_or_by_the_key(name: str, tmp_path: Path) -> None:
    script = {word: [{"text": f"this is {word}"}] for word in ("default", "red", "blue")}
    with ScriptedModel(script) as model:
        agent = Program.at(tmp_path, name, model)
        assert (await agent.run("Which?")).said == "this is default"
        assert (await agent.run("Which? [[scenario:red]]")).said == "this is red"
        assert (await agent.run("Which?", key="scenario-blue")).said == "this is blue"
        assert (await agent.run("Which? [[scenario:red]]", key="scenario-blue")).said == "this is red"
        assert [seen.scenario for seen in model.asked] == ["default", "red", "blue", "red"]


async def test_many_agents_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(6)]
    steps = {one: [{"bash": f"echo {one} >> {one}"}, {"bash": f"cat {one}"}, {"text": f"wrote {one}"}] for one in names}
    with ScriptedModel(steps) as model:
        agents = [Program.at(tmp_path / one, PROGRAMS[at % 2], model) for at, one in enumerate(names)]
        ran = await asyncio.gather(
            *(agent.run("Go.", key=f"scenario-{one}") for agent, one in zip(agents, names, strict=True))
        )
        assert [one.said for one in ran] == [f"wrote {one}" for one in names]
        assert [(agent.work / one).read_text() for agent, one in zip(agents, names, strict=True)] == [
            f"{one}\n" for one in names
        ]
        assert len(model.asked) == 3 * len(names)


@both
async def test_the_right_key_is_taken_and_every_other_one_refused(name: str, tmp_path: Path) -> None:
    with ScriptedModel([{"text": "Welcome."}], key="sk-the-right-one") as model:
        agent = Program.at(tmp_path, name, model)
        assert (await agent.run("Let me in.")).said == "Welcome."
        refused = await agent.run("Let me in.", key="sk-another-one")
        assert not refused.well
        assert [(seen.status, seen.key_came) for seen in model.asked] == [(200, True), (401, False), (401, False)]
        assert "sk-" not in str(model.log)
        key_header = {"claude": "x-api-key", "codex": "authorization"}[name]
        assert all(key_header in seen.header_names for seen in model.asked)


async def test_a_model_that_programs_its_tools_is_spoken_to_in_programs(tmp_path: Path) -> None:
    with ScriptedModel([*({name: step[name] for name in step if name != "expect"} for step in WORK)]) as model:
        ran = await Program.at(tmp_path, "codex", model).run("Say hello.", slug="gpt-6-sol")
        assert ran.said == "All done."
        assert "apply_patch" not in model.asked[0].tools
    assert (tmp_path / "work/b.txt").read_text() == "four\n"
