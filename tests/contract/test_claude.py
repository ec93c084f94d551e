"""The real Claude Code against a scripted model: what it is given, what is read from it, and how each failure ends."""

import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.agents.claude import KEY, TOKEN, ClaudeAgent
from resolvent.adapters.agents.programs import CLAUDE, INSTALL, find
from resolvent.domain.job import Limits, Session, Usage
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import (
    FileChanged,
    Noticed,
    Retried,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
)
from resolvent.domain.verdicts import Review
from resolvent.errors import AgentBusy, AgentFailed, AgentMissing, AgentTimedOut, BudgetSpent, KeyRefused
from resolvent.testing.model import ScriptedModel

from .agent_stage import AgentStage, kill, missing, processes, staged

pytestmark = pytest.mark.skipif(bool(missing(CLAUDE)), reason=missing(CLAUDE))

THE_KEY = "sk-ant-api03-the-only-one-that-is-taken"
SCHEMA = json.dumps({"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]})
NOWHERE = "11111111-1111-4111-8111-111111111111"
TOOLS: list[Any] = [
    {"write": {"path": "{cwd}/made.txt", "content": "one\n"}, "usage": {"in": 1000, "cached": 400, "out": 50}},
    [{"think": "now the rest"}, {"bash": "cat made.txt; echo two >> made.txt"}],
    {"edit": {"path": "{cwd}/README.md", "old": "hello", "new": "good bye"}},
    {"bash": "exit 3"},
    {"text": "All done."},
]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[AgentStage]:
    """Without walls: what a program does when it fails is the same there."""
    async with staged(tmp_path, boxed=False) as stage:
        yield stage


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[AgentStage]:
    async with staged(tmp_path, boxed=True) as stage:
        yield stage


@pytest.fixture(params=["without walls", "in a box"])
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentStage]:
    async with staged(tmp_path, boxed=request.param == "in a box") as stage:
        yield stage


class Models:
    """Scripted models that end with their test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, script: Any, *words: str, key: str = THE_KEY, **choice: Any) -> ClaudeAgent:
        """The agent in front of a model that plays a script; `words` go to its command line."""
        self.model = self._stack.enter_context(ScriptedModel(script, key=THE_KEY))
        return claude(self.model.url, *words, key=key, **choice)


@pytest.fixture
def models() -> Iterator[Models]:
    with ExitStack() as stack:
        yield Models(stack)


def claude(endpoint: str, *words: str, key: str = THE_KEY, retries: int = 1, **choice: Any) -> ClaudeAgent:
    environment = {"PATH": os.environ["PATH"], "CLAUDE_CODE_MAX_RETRIES": str(retries)} | choice.pop("given", {})
    choice = {"limits": Limits(wall_s=60), "env": tuple(environment), "endpoint": endpoint} | choice
    command = (choice.pop("program", "claude"), *words)
    return ClaudeAgent(
        AgentChoice(name="mine", use="claude", command=command, **choice), environment=environment, key=key
    )


# What it does


async def test_it_works_with_its_own_tools_and_tells_what_it_does(everywhere: AgentStage, models: Models) -> None:
    stage = everywhere
    reply = await stage.play(models(TOOLS))
    assert (reply.text, reply.answer, reply.notices) == ("All done.", None, ())
    assert await stage.read("made.txt") == "one\ntwo\n"
    assert await stage.read("README.md") == "good bye\n"
    moments = stage.moments()
    told = [moment.kind for moment in moments if moment.kind not in ("usage", "file_change")]
    calls = ["tool_call", "tool_result"]
    assert told == [*calls, "thinking", *calls, *calls, *calls, "text"]
    assert [moment.tool for moment in moments if isinstance(moment, ToolCalled)] == ["Write", "Bash", "Edit", "Bash"]
    assert [moment.failed for moment in moments if isinstance(moment, ToolAnswered)] == [False, False, False, True]
    shell = next(moment for moment in moments if isinstance(moment, ToolCalled) and moment.tool == "Bash")
    answers = {moment.call: moment.output for moment in moments if isinstance(moment, ToolAnswered)}
    assert (shell.input, answers[shell.call].strip()) == ("cat made.txt; echo two >> made.txt", "one")
    changes = [(Path(moment.path).name, moment.change) for moment in moments if isinstance(moment, FileChanged)]
    assert changes == [("made.txt", "add"), ("README.md", "update")]
    assert Said(text="All done.") in moments and Thought(text="now the rest") in moments
    assert moments[-1] == Spent(usage=reply.usage)
    assert reply.usage.usd > 0 and reply.usage.cached_tokens == 400 and reply.usage.input_tokens > 1000


@pytest.mark.spec("A11")
async def test_the_key_is_neither_in_the_box_nor_in_any_file(box: AgentStage, models: Models) -> None:
    look = "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; grep -rs only-one-that-is $HOME $TMPDIR /run"
    reply = await box.play(models([{"bash": look}, {"text": "looked"}]))
    seen = next(moment.output for moment in box.moments() if isinstance(moment, ToolAnswered))
    assert reply.text == "looked" and all(one.key_came for one in models.model.asked)
    assert "RESOLVENT_STEP=analyze" in seen and THE_KEY not in seen
    assert box.files_with(THE_KEY) == []


@pytest.mark.spec("A11")
async def test_without_a_box_the_key_is_blotted_out_of_all_that_is_kept(stage: AgentStage, models: Models) -> None:
    reply = await stage.play(models([{"bash": f"echo ${KEY}"}, {"text": "looked"}]))
    seen = [moment.output.strip() for moment in stage.moments() if isinstance(moment, ToolAnswered)]
    assert reply.text == "looked" and THE_KEY not in seen[0]
    jobs = stage.home.state / "jobs"
    assert [file for file in stage.files_with(THE_KEY) if Path(file).is_relative_to(jobs)] == []


async def test_a_token_of_a_subscription_is_used_as_one(everywhere: AgentStage, models: Models) -> None:
    stage = everywhere
    agent = models([{"bash": f"echo ${TOKEN}"}, {"text": "fine"}], key="", given={TOKEN: THE_KEY})
    assert (await stage.play(agent)).text == "fine"
    assert all(one.key_came and "authorization" in one.header_names for one in models.model.asked)
    assert all(THE_KEY not in moment.model_dump_json() for moment in stage.moments())


async def test_it_needs_a_key_and_says_what_to_type() -> None:
    with pytest.raises(KeyRefused, match=r"agent mine has no key: \$ANTHROPIC_API_KEY is not set") as caught:
        claude("", key="").ready()
    assert caught.value.hint.startswith("export ANTHROPIC_API_KEY=")
    claude("", key="", given={"CLAUDE_CODE_USE_BEDROCK": "1"}).ready()
    claude("", key="", given={TOKEN: "x"}).ready()


async def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    agent = claude("", program="/no/such/claude")
    with pytest.raises(AgentMissing, match=r"there is no program '/no/such/claude' that can be run$") as caught:
        agent.ready()
    assert caught.value.hint == INSTALL
    with pytest.raises(
        AgentMissing, match="there is no program 'claudette' that can be run, looked for in /"
    ) as caught:
        claude("", program="claudette").ready()
    assert caught.value.hint.startswith("command -v claudette "), "we bring no program of that name"
    assert agent.asked_version() == ()
    assert claude("").asked_version()[1:] == ("--version",)


async def test_settings_of_the_project_neither_redirect_it_nor_run_anything_but_its_claude_md_counts(
    tmp_path: Path, models: Models
) -> None:
    hook = {"hooks": [{"type": "command", "command": "touch hooked"}]}
    settings = {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "hooks": {"SessionStart": [hook]}}
    files = {".claude/settings.json": json.dumps(settings), "CLAUDE.md": "Say MARK-OF-CLAUDE-MD.\n"}
    texts: list[str] = []

    def script(conversation: Any, step: int) -> dict[str, str]:
        texts.append(f"{conversation.system}{conversation.items}")
        return {"bash": "ls -a"} if step == 0 else {"text": "fine"}

    async with staged(tmp_path, boxed=False, files=files) as stage:
        assert (await stage.play(models(script))).text == "fine"
        listed = next(moment.output for moment in stage.moments() if isinstance(moment, ToolAnswered))
    assert "CLAUDE.md" in listed and "hooked" not in listed
    assert "MARK-OF-CLAUDE-MD" in texts[0]


# What it answers


async def test_an_answer_after_the_schema_of_a_verdict(stage: AgentStage, models: Models) -> None:
    verdict = {"verdict": "NO_P0_P1", "claims": []}
    agent = models([{"bash": "true"}, {"structured": verdict}])
    reply = await stage.play(agent, json_schema=json.dumps(Review.model_json_schema()))
    assert Review.model_validate_json(reply.answer or "") == Review.model_validate(verdict)


async def test_an_answer_that_does_not_fit_is_asked_for_again_by_the_program_itself(
    stage: AgentStage, models: Models
) -> None:
    reply = await stage.play(
        models([{"structured": {"number": "x"}}, {"structured": {"number": 3}}]), json_schema=SCHEMA
    )
    assert json.loads(reply.answer or "") == {"number": 3}


async def test_a_schema_that_is_never_answered_leaves_the_text_and_the_answer_file(
    stage: AgentStage, models: Models
) -> None:
    never = [{"text": "VERDICT=VALID"}, {"text": "no, VERDICT=VALID"}]
    reply = await stage.play(models(never), json_schema=SCHEMA)
    assert (reply.text, reply.answer) == ("no, VERDICT=VALID", None)
    by_file = [{"bash": "echo '{\"number\": 4}' > $RESOLVENT_ANSWER"}, *never]
    reply = await stage.play(models(by_file), json_schema=SCHEMA)
    assert (reply.text, reply.answer) == ("no, VERDICT=VALID", '{"number": 4}\n')


async def test_ten_megabytes_of_output_of_a_tool_are_no_trouble(stage: AgentStage, models: Models) -> None:
    reply = await stage.play(models([{"bash": "head -c 10000000 /dev/zero | tr '\\0' x"}, {"text": "large"}]))
    assert reply.text == "large"
    assert len(stage.output(stage.turns[-1]).read_bytes()) < 1 << 20


async def test_a_tool_that_was_refused_is_told_and_the_turn_goes_on(stage: AgentStage, models: Models) -> None:
    outside = {"write": {"path": "/etc/written-by-an-agent", "content": "x"}}
    reply = await stage.play(models([outside, {"text": "went on"}]))
    assert (reply.text, reply.notices) == ("went on", ("Write was refused 1×",))
    assert not Path("/etc/written-by-an-agent").exists()
    assert any(isinstance(one, Noticed) and one.text.startswith("Write was refused: ") for one in stage.moments())
    assert not any(isinstance(one, FileChanged) for one in stage.moments())


async def test_a_broken_mcp_server_is_told_and_the_turn_goes_on(stage: AgentStage, models: Models) -> None:
    broken = json.dumps({"mcpServers": {"demo": {"command": "/no/such/server"}}})
    reply = await stage.play(models([{"text": "went on"}], "--mcp-config", broken))
    assert (reply.text, reply.notices) == ("went on", ("MCP server demo did not start (failed)",))
    assert Noticed(text=reply.notices[0]) in stage.moments()


# Sessions


async def test_a_session_goes_on_in_a_copy_of_the_branch_and_each_turn_tells_its_own_cost(
    everywhere: AgentStage, models: Models
) -> None:
    stage = everywhere
    seen: list[int] = []

    def script(conversation: Any, step: int) -> dict[str, Any]:
        seen.append(conversation.turns)
        return {"text": f"turn {conversation.turns}", "usage": {"in": 1000, "out": 100}}

    agent = models(script)
    first = await stage.play(agent, "remember this")
    child = await stage.fork("child")
    second = await child.play(agent, "and now?", session=first.session, turn=2)
    assert (first.text, second.text) == ("turn 1", "turn 2")
    assert first.session and second.session and first.session.id == second.session.id
    assert first.usage == second.usage == first.session.spent and first.usage.usd > 0
    assert second.session.spent.input_tokens == 2000
    assert second.session.spent.usd == pytest.approx(2 * first.usage.usd)
    assert child.moments()[-1] == Spent(usage=second.usage)


async def test_a_new_session_has_an_id_that_follows_from_its_job(stage: AgentStage, models: Models) -> None:
    reply = await stage.play(models([{"text": "one"}]))
    again = stage.turns[0].agent.job(stage.turns[0].task, id=stage.turns[0].id)
    assert reply.session and uuid.UUID(reply.session.id).version == 5
    assert reply.session.id in again.argv


async def test_a_session_that_is_gone_says_so(stage: AgentStage, models: Models) -> None:
    with pytest.raises(AgentFailed, match=f"its session {NOWHERE} is gone") as caught:
        await stage.play(models([{"text": "never"}]), session=Session(id=NOWHERE))
    assert caught.value.details["session_gone"] is True


# How it fails


async def test_a_server_that_fails_is_busy_and_was_asked_again_first(stage: AgentStage, models: Models) -> None:
    with pytest.raises(AgentBusy, match="agent mine: API Error: 500") as caught:
        await stage.play(models([{"fail": {"status": 500, "times": "always"}}]))
    assert caught.value.until is None
    retried = [moment for moment in stage.moments() if isinstance(moment, Retried)]
    assert [(one.attempt, one.status) for one in retried] == [(1, 500)] and retried[0].delay_s > 0
    assert any(isinstance(moment, Noticed) and "500" in moment.text for moment in stage.moments())
    assert not any(isinstance(moment, Said) for moment in stage.moments())


@pytest.mark.parametrize(
    "fault",
    [{"fail": {"status": 529, "times": "always"}}, {"cut": True}, {"malformed": "html"}],
    ids=lambda one: next(iter(one)),
)
async def test_a_server_that_is_overloaded_or_cuts_its_stream_is_busy(
    stage: AgentStage, models: Models, fault: dict[str, Any]
) -> None:
    with pytest.raises(AgentBusy):
        await stage.play(models([{"text": "half of this is lost", **fault}]))


async def test_a_server_that_cannot_be_reached_is_busy(everywhere: AgentStage) -> None:
    with pytest.raises(AgentBusy):
        await everywhere.play(claude("http://127.0.0.1:9"))


async def test_a_failure_that_passes_is_no_failure(stage: AgentStage, models: Models) -> None:
    agent = models([{"text": "here", "fail": {"status": 529, "times": 1}}])
    assert (await stage.play(agent)).text == "here"
    assert [moment.status for moment in stage.moments() if isinstance(moment, Retried)] == [529]


async def test_a_rate_limit_is_busy_until_its_server_said(stage: AgentStage, models: Models) -> None:
    began = time.time()
    with pytest.raises(AgentBusy) as caught:
        await stage.play(models([{"text": "x", "limit": {"seconds": 1, "times": 9}}]))
    assert caught.value.until is not None and began < caught.value.until < time.time() + 5


async def test_a_rate_limit_that_resets_in_an_hour_is_busy_until_then(box: AgentStage, models: Models) -> None:
    began = time.time()
    with pytest.raises(AgentBusy) as caught:
        await box.play(models([{"text": "x", "limit": {"seconds": 3600}}]))
    assert caught.value.until == pytest.approx(began + 3600, abs=30)


async def test_a_quota_of_a_subscription_is_busy_until_its_reset(stage: AgentStage, models: Models) -> None:
    agent = models([{"text": "x", "limit": {"seconds": 3600, "kind": "quota"}}], key="", given={TOKEN: THE_KEY})
    began = time.time()
    with pytest.raises(AgentBusy, match="limit") as caught:
        await stage.play(agent)
    assert caught.value.until == pytest.approx(began + 3600, abs=30)


async def test_a_key_that_is_refused_names_its_variable(everywhere: AgentStage, models: Models) -> None:
    stage = everywhere
    with pytest.raises(KeyRefused, match=r"the key in \$ANTHROPIC_API_KEY is refused: Invalid API key") as caught:
        await stage.play(models([{"text": "never"}], key="sk-ant-api03-another-one-entirely"))
    assert caught.value.hint.startswith("export ANTHROPIC_API_KEY=")
    retried = next(moment for moment in stage.moments() if isinstance(moment, Retried))
    assert (retried.attempt, retried.status, retried.reason) == (1, 401, "authentication_failed")


async def test_a_turn_that_is_stopped_at_the_first_refusal_of_its_key_says_so(
    stage: AgentStage, models: Models
) -> None:
    turn = await stage.begin(models([{"text": "never"}], key="sk-ant-api03-another-one-entirely", retries=10))
    await models.model.requests(2)
    await stage.home.jobs().cancel(turn.id)
    with pytest.raises(KeyRefused, match=r"\$ANTHROPIC_API_KEY is refused: its model's server answered 401"):
        await stage.end(turn)


async def test_a_prompt_that_is_too_long_failed(stage: AgentStage, models: Models) -> None:
    agent = models([{"fail": {"status": 400, "type": "prompt_too_long", "times": "always"}}])
    with pytest.raises(AgentFailed, match="prompt_too_long: Prompt is too long"):
        await stage.play(agent)


async def test_too_many_turns_failed(stage: AgentStage, models: Models) -> None:
    agent = models([{"bash": "true"}, {"bash": "true"}, {"bash": "true"}, {"text": "never"}], "--max-turns", "2")
    with pytest.raises(AgentFailed, match="max_turns: Reached maximum number of turns"):
        await stage.play(agent)


@pytest.mark.spec("A14")
async def test_a_budget_that_is_spent_says_what_was_spent(stage: AgentStage, models: Models) -> None:
    agent = models([{"bash": "echo done > partial.txt"}, {"bash": "true", "usage": {"in": 400_000}}, {"text": "never"}])
    with pytest.raises(BudgetSpent, match=r"Reached maximum budget .*\(it may spend \$1\)") as caught:
        await stage.play(agent, budget_usd=1.0)
    usage = Usage.model_validate(caught.value.details["usage"])
    assert usage.usd > 1.0 and usage.input_tokens > 400_000
    assert await stage.read("partial.txt") == "done\n"
    assert stage.moments()[-1] == Spent(usage=usage)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
async def test_a_killed_program_failed_leaves_nothing_running_and_its_session_goes_on(
    everywhere: AgentStage, models: Models, number: signal.Signals
) -> None:
    stage = everywhere
    mark, bell = uuid.uuid4().hex, stage.bell()
    endless = f"echo > $TMPDIR/bell; exec tail -f /dev/null {mark}"
    agent = models({"default": [{"bash": endless}, {"text": "never"}], "later": [{"text": "went on"}]})
    turn = await stage.begin(agent)
    await bell.rung()
    program = find(AgentChoice(name="mine", use="claude"), CLAUDE, path=os.environ["PATH"]).path
    words = agent.job(turn.task, id=turn.id).argv
    kill(program, words[words.index("--session-id") + 1], number)
    with pytest.raises(AgentFailed, match="agent mine: "):
        await stage.end(turn)
    assert processes(mark) == {}
    session = stage.interrupted(turn)
    assert session is not None
    assert (await stage.play(agent, "[[scenario:later]]", session=session)).text == "went on"


async def test_a_cancelled_turn_leaves_nothing_running(everywhere: AgentStage, models: Models) -> None:
    stage = everywhere
    mark, bell = uuid.uuid4().hex, stage.bell()
    turn = await stage.begin(models([{"bash": f"echo > $TMPDIR/bell; exec tail -f /dev/null {mark}"}]))
    await bell.rung()
    await stage.home.jobs().cancel(turn.id)
    assert processes(mark) == {}
    with pytest.raises(AgentFailed, match="agent mine: was cancelled"):
        await stage.end(turn)


async def test_a_model_that_never_answers_runs_into_the_wall(stage: AgentStage, models: Models) -> None:
    with pytest.raises(AgentTimedOut, match="agent mine took too long and was stopped") as caught:
        await stage.play(models([{"hang": True}], limits=Limits(wall_s=2)))
    assert caught.value.details["ending"] == "wall"


async def test_a_turn_that_was_stopped_before_its_first_word_has_no_session(stage: AgentStage, models: Models) -> None:
    turn = await stage.begin(models([{"hang": True}], limits=Limits(wall_s=0.01)))
    with pytest.raises(AgentTimedOut):
        await stage.end(turn)
    assert stage.interrupted(turn) is None
