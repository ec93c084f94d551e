"""The real codex against a scripted model: what it is given, what is read from it, and how each failure ends."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.agents.codex import CodexAgent
from resolvent.adapters.agents.programs import CODEX, find
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.bubblewrap import candidates
from resolvent.adapters.workspace.confine import Walls, furnish
from resolvent.domain.job import Files, Job, JobExit, Limits, Reply, Session, Task
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import FileChanged, Moment, Retried, Said, Spent, ToolAnswered, ToolCalled
from resolvent.errors import AgentBusy, AgentFailed, AgentMissing, AgentTimedOut, KeyRefused, MalformedAnswer
from resolvent.testing.model import ScriptedModel

from .boxed import trouble

THE_KEY = "sk-the-only-one-that-is-taken"
SCHEMA = json.dumps({"type": "object", "properties": {"verdict": {"type": "string", "default": "none"}}})
NOWHERE = "01a1e215-1784-71c3-8e6f-ae232d9499bd"


def missing() -> str:
    try:
        find(AgentChoice(name="codex", use="codex"), CODEX, path=os.environ["PATH"])
    except AgentMissing as error:
        return f"codex is not installed: {error.hint}"
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Stage:
    """A workspace, a private directory for the turns of one session, and codex in front of a scripted model."""

    def __init__(self, path: Path, *, walls: Walls | None = None) -> None:
        self.path = path
        self.walls = walls
        self.private = path / "private"
        self.workspace = path / "layers/upper/up" if walls else path / "workspace"
        self.workspace.mkdir(parents=True)
        self.jobs = SupervisedJobs(path / "jobs")
        self.models = ExitStack()
        self.turn = 0

    def model(self, script: Any, **options: Any) -> ScriptedModel:
        return self.models.enter_context(ScriptedModel(script, **options))

    def agent(self, server: ScriptedModel | str, *words: str, key: str = THE_KEY, **choice: Any) -> CodexAgent:
        endpoint = server if isinstance(server, str) else server.url
        command = ("codex", *words) if words else ()
        choice = {"limits": Limits(wall_s=60), "env": ("PATH",)} | choice
        chosen = AgentChoice(name="codex", use="codex", command=command, endpoint=endpoint, **choice)
        return CodexAgent(chosen, environment={"PATH": os.environ["PATH"]}, key=key)

    def task(self, prompt: str = "do it", *, schema: str = "", session: Session | None = None) -> Task:
        inside = self.walls.inside(str(self.private)) if self.walls else str(self.private)
        return Task(
            run="run-1",
            step="analyze",
            attempt=1,
            turn=self.turn,
            prompt=prompt,
            json_schema=schema,
            directory=str(self.private),
            inside=inside,
            session=session,
            boxed=self.walls is not None,
        )

    def entered(self, job: Job) -> Job:
        if self.walls is None:
            return job.model_copy(update={"cwd": str(self.workspace)})
        files = Files(layers=str(self.path / "layers"), upper="upper", lowers=("ground",))
        return self.walls.around(job, files=files, private=str(self.private), objects="")

    async def play(self, agent: CodexAgent, prompt: str = "do it", **about: Any) -> Reply:
        self.turn += 1
        task = self.task(prompt, **about)
        exit = await self.jobs.ensure(self.entered(agent.job(task, id=f"job{self.turn}")))
        return agent.reply(task, exit, self.output)

    async def say(self, script: Any, prompt: str = "do it", **about: Any) -> Reply:
        return await self.play(self.agent(self.model(script)), prompt, **about)

    @property
    def output(self) -> Path:
        return self.jobs.output(f"job{self.turn}")

    def moments(self, agent: CodexAgent) -> list[Moment]:
        listener = agent.listener()
        return [moment for line in self.output.read_bytes().splitlines() for moment in listener.hear(line)]

    def processes(self) -> dict[int, str]:
        """Whatever runs in the workspace or was started for it."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                here = os.readlink(entry / "cwd") if entry.name.isdigit() else ""
            except OSError:
                continue
            if here.startswith(str(self.workspace)) or any(f'"{self.workspace}"' in word for word in words):
                found[int(entry.name)] = words[0]
        return found


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    with stage.models:
        yield stage


@pytest.fixture
def boxed(tmp_path: Path) -> Iterator[Stage]:
    """The same with walls around it."""
    if trouble():
        pytest.skip(f"no boxes here: {trouble()}")
    user = 61999 if os.geteuid() == 0 else None
    for part in ("ground/up", "ground/wk", "upper/wk"):
        (tmp_path / "layers" / part).mkdir(parents=True)
    etc = furnish(tmp_path, user=user or os.getuid())
    walls = Walls(kind="namespaces", bwrap=candidates(os.environ["PATH"])[0][0], user=user, etc=etc)
    stage = Stage(tmp_path, walls=walls)
    walls.give(tmp_path / "layers")
    with stage.models:
        yield stage


# What it does when all is well


async def test_it_works_with_its_own_tools_and_tells_what_it_does(stage: Stage) -> None:
    usage = {"in": 1000, "cached": 400, "out": 50}
    model = stage.model(
        [
            [{"think": "a plan"}, {"text": "first a look"}, {"bash": "echo hello; exit 3"}],
            {"write": {"path": "{cwd}/made.txt", "content": "one\n"}},
            {"edit": {"path": "{cwd}/made.txt", "old": "one", "new": "two"}},
            {"text": "all done", "usage": usage},
        ],
        key=THE_KEY,
    )
    agent = stage.agent(model, model="gpt-5.5")
    reply = await stage.play(agent, "a prompt with ünïcode")
    assert (stage.workspace / "made.txt").read_text() == "two\n"
    assert reply.text == "all done" and reply.answer is None
    assert reply.usage.input_tokens > 1000 and reply.usage.cached_tokens == 400 and reply.usage.output_tokens > 50
    assert reply.usage.usd > 0
    assert reply.session is not None and reply.session.spent == reply.usage
    assert "ünïcode" in model.asked[0].prompt and all(seen.key_came for seen in model.asked)
    moments = stage.moments(agent)
    [command] = [one for one in moments if isinstance(one, ToolCalled) and one.tool == "exec_command"]
    assert "echo hello" in command.input
    [result] = [one for one in moments if isinstance(one, ToolAnswered) and one.call == command.call]
    assert (result.output, result.failed) == ("hello\n", True)
    changed = [(Path(one.path).name, one.change) for one in moments if isinstance(one, FileChanged)]
    assert changed == [("made.txt", "add"), ("made.txt", "update")]
    assert [one.text for one in moments if isinstance(one, Said)] == ["first a look", "all done"]
    assert [one.usage for one in moments if isinstance(one, Spent)] == [reply.usage]


# The second one writes programs for its tools.
@pytest.mark.parametrize("name", ["gpt-5.5", "gpt-6-sol"])
async def test_in_a_box_it_reaches_its_model_and_the_key_stays_outside(boxed: Stage, name: str) -> None:
    model = boxed.model(
        [
            {"bash": "env; cat /proc/*/environ /run/resolvent/codex/config.toml 2>/dev/null; echo hi > by-shell"},
            {"write": {"path": "{cwd}/by-patch", "content": "one\n"}},
            {"text": "done"},
        ],
        key=THE_KEY,
    )
    agent = boxed.agent(model, model=name)
    reply = await boxed.play(agent)
    assert reply.text == "done"
    assert (boxed.workspace / "by-shell").read_text() == "hi\n"
    assert (boxed.workspace / "by-patch").read_text() == "one\n"
    assert all(seen.key_came and seen.model == name for seen in model.asked)
    output = boxed.output.read_text()
    assert "RESOLVENT_STEP=analyze" in output and "env_key" in output
    assert THE_KEY not in output


@pytest.mark.parametrize("where", ["stage", "boxed"])
async def test_no_file_that_is_left_holds_the_key(request: pytest.FixtureRequest, where: str) -> None:
    stage: Stage = request.getfixturevalue(where)
    await stage.play(stage.agent(stage.model([{"bash": "env"}, {"text": THE_KEY}], key=THE_KEY)))
    files = [place for place in stage.path.rglob("*") if place.is_file() and not place.is_symlink()]
    assert any(place.name == "output" for place in files)
    # What the model itself says is in the session that codex keeps; nobody but codex reads that.
    ours = [place for place in files if "sessions" not in place.parts and ".sqlite" not in place.name]
    assert [str(place) for place in ours if THE_KEY.encode() in place.read_bytes()] == []


async def test_its_own_walls_cannot_be_put_up_inside_ours(boxed: Stage) -> None:
    # Why it is told to have none in there. Whoever makes it possible finds this test failing.
    agent = boxed.agent(boxed.model([{"bash": "echo it ran > ran"}, {"text": "done"}]))
    boxed.turn += 1
    job = agent.job(boxed.task(), id="job1")
    argv = tuple("workspace-write" if word == "danger-full-access" else word for word in job.argv)
    assert argv != job.argv
    exit = await boxed.jobs.ensure(boxed.entered(job.model_copy(update={"argv": argv})))
    assert agent.reply(boxed.task(), exit, boxed.output).text == "done"
    assert not (boxed.workspace / "ran").exists()


async def test_outside_of_a_box_it_has_walls_of_its_own_and_its_tools_no_key(stage: Stage) -> None:
    model = stage.model(
        [{"bash": f"env; echo x > {stage.path}/outside; echo x > inside"}, {"text": "done"}], key=THE_KEY
    )
    await stage.play(stage.agent(model))
    assert (stage.workspace / "inside").exists()
    assert not (stage.path / "outside").exists()
    output = stage.output.read_text()
    assert "RESOLVENT_STEP=analyze" in output
    assert THE_KEY not in output and "RUST_LOG" not in output and "RESOLVENT_MODEL_KEY" not in output


async def test_an_answer_after_a_schema_is_the_answer(stage: Stage) -> None:
    model = stage.model([[{"text": "{}"}, {"bash": "true"}], {"structured": {"verdict": "fine"}}])
    reply = await stage.play(stage.agent(model), schema=SCHEMA)
    assert json.loads(reply.answer or "") == {"verdict": "fine"}
    sent = model.asked[0].schema
    assert sent is not None and sent["required"] == ["verdict"] and sent["additionalProperties"] is False


async def test_a_schema_that_is_never_answered_leaves_the_words(stage: Stage) -> None:
    reply = await stage.say([{"text": "VERDICT=VALID"}], schema=SCHEMA)
    assert (reply.text, reply.answer) == ("VERDICT=VALID", None)


async def test_words_before_another_tool_are_not_its_last(stage: Stage) -> None:
    reply = await stage.say([[{"text": '{"verdict": "too early"}'}, {"bash": "true"}], {"think": "hm"}], schema=SCHEMA)
    assert (reply.text, reply.answer) == ("", None)


async def test_an_answer_in_its_file_counts_when_its_words_are_none(boxed: Stage) -> None:
    model = boxed.model(
        [{"bash": """echo '{"verdict": "filed"}' > $RESOLVENT_ANSWER"""}, {"text": "it is in the file"}]
    )
    reply = await boxed.play(boxed.agent(model))
    assert json.loads(reply.answer or "") == {"verdict": "filed"}


async def test_an_answer_file_that_is_a_link_is_malformed(boxed: Stage) -> None:
    with pytest.raises(MalformedAnswer, match="answer file"):
        model = boxed.model([{"bash": "ln -s /etc/passwd $RESOLVENT_ANSWER"}, {"text": "look there"}])
        await boxed.play(boxed.agent(model))


async def test_a_prompt_of_a_megabyte_arrives_whole_and_a_longer_one_is_a_failure(stage: Stage) -> None:
    model, prompt = stage.model([{"text": "read"}]), "x" * ((1 << 20) - 7) + "the end"
    await stage.play(stage.agent(model), prompt)
    assert model.asked[0].prompt == prompt
    with pytest.raises(AgentFailed, match="the prompt is longer than it takes") as caught:
        await stage.play(stage.agent(model), prompt + ".")
    assert caught.value.details["context_exceeded"] is True


async def test_ten_megabytes_of_output_are_kept_short_for_people(stage: Stage) -> None:
    model = stage.model([{"bash": "head -c 10000000 /dev/zero | tr '\\0' x; echo the end"}, {"text": "done"}])
    agent = stage.agent(model)
    assert (await stage.play(agent)).text == "done"
    [answered] = [one for one in stage.moments(agent) if isinstance(one, ToolAnswered)]
    assert answered.output.endswith("the end\n") and len(answered.output) < 100_000


async def test_a_model_nobody_knows_works_and_is_noticed(stage: Stage) -> None:
    reply = await stage.play(stage.agent(stage.model([{"text": "done"}]), model="my-own-model"))
    assert reply.text == "done" and reply.usage.usd == 0
    assert any("my-own-model" in notice for notice in reply.notices)


async def test_every_word_of_its_configuration_is_known_to_it(stage: Stage) -> None:
    assert (await stage.play(stage.agent(stage.model([{"text": "done"}]), "--strict-config"))).notices == ()


async def test_what_a_repository_says_to_codex_is_not_obeyed(stage: Stage) -> None:
    own = stage.workspace / ".codex"
    own.mkdir()
    canary = stage.path / "canary"
    own.joinpath("config.toml").write_text(
        f'model = "gpt-other"\n[mcp_servers.evil]\ncommand = "/usr/bin/touch"\nargs = ["{canary}"]\n'
    )
    model = stage.model(lambda conversation, step: {"text": conversation.user_text})
    first = await stage.play(stage.agent(model))
    # What it is told about how to work there it is to read by itself.
    assert "AGENTS.md, read it before you begin" in first.text
    await stage.play(stage.agent(model), session=first.session)
    assert not canary.exists()
    assert [seen.model for seen in model.asked] == ["gpt-5.5", "gpt-5.5"]
    assert "trusted" not in (stage.private / "codex/config.toml").read_text()


async def test_a_workspace_with_quotes_in_its_name_is_not_trusted_either(tmp_path: Path) -> None:
    stage = Stage(tmp_path / 'it\'s "quoted" \\ here')
    with stage.models:
        assert (await stage.say([{"text": "done"}])).text == "done"
    assert "trusted" not in (stage.private / "codex/config.toml").read_text()


async def test_what_an_agent_put_in_the_place_of_its_configuration_is_not_followed(stage: Stage) -> None:
    model = stage.model([{"text": "one"}, {"text": "two"}])
    first = await stage.play(stage.agent(model))
    victim, place = stage.path / "victim", stage.private / "codex"
    victim.write_text("mine")
    (place / "config.toml").unlink()
    (place / "config.toml").symlink_to(victim)
    assert (await stage.play(stage.agent(model), session=first.session)).text == "two"
    assert victim.read_text() == "mine" and not (place / "config.toml").is_symlink()
    place.rename(stage.path / "elsewhere")
    place.symlink_to(stage.path / "elsewhere")
    with pytest.raises(AgentFailed, match="its private directory cannot be used"):
        await stage.play(stage.agent(model), session=first.session)


def test_who_has_no_key_is_told_what_to_type(stage: Stage) -> None:
    agent = CodexAgent(AgentChoice(name="mine", use="codex", key="MY_KEY"), environment={})
    with pytest.raises(KeyRefused, match="agent mine: MY_KEY holds no key") as caught:
        agent.ready()
    assert caught.value.hint == "export MY_KEY=…"
    with pytest.raises(KeyRefused) as caught:
        CodexAgent(AgentChoice(name="mine", use="codex", key="$MY_KEY"), environment={}).ready()
    assert caught.value.hint == "export MY_KEY=…"
    with pytest.raises(KeyRefused, match="OPENAI_API_KEY"):
        CodexAgent(AgentChoice(name="mine", use="codex"), environment={}).ready()
    # A server of one's own may take anybody.
    stage.agent("http://127.0.0.1:1", key="").ready()


def test_a_box_gets_one_way_out_and_a_process_outside_of_one_its_key(stage: Stage) -> None:
    agent = stage.agent("https://models.example.com/team/v1")
    outside = agent.job(stage.task(), id="job")
    assert outside.gateways == () and outside.environment["RESOLVENT_MODEL_KEY"] == THE_KEY
    assert 'base_url = "https://models.example.com/team/v1"' in (stage.private / "codex/config.toml").read_text()
    inside = agent.job(stage.task().model_copy(update={"boxed": True}), id="job")
    [gateway] = inside.gateways
    assert gateway.upstream == "https://models.example.com/team"
    assert gateway.headers == {"authorization": f"Bearer {THE_KEY}"}
    assert f'base_url = "http://127.0.0.1:{gateway.port}/v1"' in (stage.private / "codex/config.toml").read_text()
    assert THE_KEY not in " ".join(inside.environment.values()) and inside.secrets == outside.secrets == (THE_KEY,)


# Going on with a session


async def test_a_resumed_session_costs_only_what_came_on_top(stage: Stage) -> None:
    model = stage.model(
        [
            {"text": "one", "usage": {"in": 1000, "out": 10}},
            {"text": "two", "usage": {"in": 500, "cached": 300, "out": 7}},
        ]
    )
    agent = stage.agent(model)
    first = await stage.play(agent, "remember me")
    second = await stage.play(agent, "again", session=first.session)
    assert first.session and second.session and first.session.id == second.session.id
    assert (second.usage.input_tokens, second.usage.cached_tokens, second.usage.output_tokens) == (500, 300, 7)
    assert second.session.spent.input_tokens == 1500
    assert [one.usage for one in stage.moments(agent) if isinstance(one, Spent)] == [second.usage]
    assert model.asked[1].step == 1


async def test_a_session_that_is_gone_is_told_apart_from_other_failures(stage: Stage) -> None:
    model = stage.model([{"text": "never"}])
    with pytest.raises(AgentFailed, match="thread is gone") as caught:
        await stage.play(stage.agent(model), session=Session(id=NOWHERE))
    assert caught.value.details["session_gone"] is True
    # By a name that it does not know it would begin a new one.
    with pytest.raises(AgentFailed, match="is no thread") as caught:
        await stage.play(stage.agent(model), session=Session(id="nonsense"))
    assert caught.value.details["session_gone"] is True
    assert model.asked == ()


async def test_a_turn_that_was_killed_is_gone_on_with(stage: Stage) -> None:
    model = stage.model([{"bash": "echo kept > kept"}, {"text": "never", "hang": True}])
    agent = stage.agent(model)
    task, running = await started(stage, agent, "remember me")
    await model.requests(2)
    await stage.jobs.cancel(f"job{stage.turn}")
    exit = await running
    with pytest.raises(AgentFailed, match="cancelled"):
        agent.reply(task, exit, stage.output)
    session = agent.session(task, stage.output)
    assert session is not None
    goes_on = stage.agent(stage.model(lambda conversation, step: {"text": conversation.user_text}))
    reply = await stage.play(goes_on, "go on", session=session)
    assert "remember me" in reply.text and "go on" in reply.text
    assert reply.session and reply.session.id == session.id
    assert (stage.workspace / "kept").exists()


# How each failure ends


async def started(stage: Stage, agent: CodexAgent, prompt: str = "do it") -> tuple[Task, "asyncio.Task[JobExit]"]:
    stage.turn += 1
    task = stage.task(prompt)
    job = stage.entered(agent.job(task, id=f"job{stage.turn}"))
    return task, asyncio.create_task(stage.jobs.ensure(job))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"fail": {"status": 500, "times": "always"}}, "high demand"),
        ({"cut": True}, "stream disconnected"),
        ({"malformed": "bytes"}, "stream disconnected"),
        ({"malformed": "html"}, "stream disconnected"),
        ({"fail": {"status": 502, "times": "always"}}, "502 Bad Gateway"),
    ],
    ids=["500", "cut", "garbage", "html", "502"],
)
async def test_a_server_in_trouble_is_asked_again_a_little_and_then_later(
    stage: Stage, fault: dict[str, Any], told: str
) -> None:
    model = stage.model([{"text": "many words, so that there is something to cut off" * 9, **fault}])
    agent = stage.agent(model)
    with pytest.raises(AgentBusy, match=told) as caught:
        await stage.play(agent)
    assert caught.value.until is None
    assert 1 < len(model.asked) < 12
    assert any(isinstance(one, Retried) for one in stage.moments(agent))


async def test_a_model_at_its_capacity_is_asked_later(stage: Stage) -> None:
    with pytest.raises(AgentBusy, match=r"at capacity|503"):
        await stage.say([{"text": "x", "fail": {"status": 503, "times": "always", "message": "overloaded"}}])


async def test_a_server_that_is_not_there_is_busy_and_nobody_waits_for_it(stage: Stage) -> None:
    with ScriptedModel([]) as gone:
        url = gone.url
    with pytest.raises(AgentBusy, match="Connection failed"):
        await stage.play(stage.agent(url))


async def test_a_stream_that_is_cut_once_is_taken_up_again(stage: Stage) -> None:
    model = stage.model([{"text": "whole in the end, after many words" * 9, "cut": {"times": 1}}])
    agent = stage.agent(model)
    assert (await stage.play(agent)).text.startswith("whole in the end")
    [retry] = [one for one in stage.moments(agent) if isinstance(one, Retried)]
    assert retry.attempt == 1 and "stream disconnected" in retry.reason


async def test_a_wrong_key_is_refused_and_says_what_to_type(stage: Stage) -> None:
    model = stage.model([{"text": "never"}], key=THE_KEY)
    agent = stage.agent(model, key="sk-another-key")
    with pytest.raises(KeyRefused, match="401") as caught:
        await stage.play(agent)
    assert "OPENAI_API_KEY" in caught.value.hint
    assert "sk-another-key" not in caught.value.message
    assert {one.status for one in stage.moments(agent) if isinstance(one, Retried)} == {401}


async def test_a_key_that_may_not_use_the_model_is_refused(stage: Stage) -> None:
    with pytest.raises(KeyRefused, match="not for you"):
        await stage.say([{"text": "x", "fail": {"status": 403, "times": "always", "message": "not for you"}}])


async def test_a_short_limit_is_waited_for_in_place_and_nothing_is_asked_meanwhile(stage: Stage) -> None:
    model = stage.model([{"text": "after the pause", "limit": {"seconds": 2}}])
    agent = stage.agent(model)
    assert (await stage.play(agent)).text == "after the pause"
    refused, answered = model.asked
    assert (refused.status, answered.status) == (429, 200)
    assert answered.at - refused.at >= 1.9
    [retry] = [one for one in stage.moments(agent) if isinstance(one, Retried)]
    assert retry.status == 429 and 1 < retry.delay_s <= 2.1


async def test_a_long_limit_tells_when_it_ends_while_it_still_waits(stage: Stage) -> None:
    agent = stage.agent(stage.model([{"text": "x", "limit": {"seconds": 3600}}]))
    task, running = await started(stage, agent)
    listener, began = agent.listener(), time.time()
    async for line in stage.jobs.lines(f"job{stage.turn}"):
        if retries := [one for one in listener.hear(line) if isinstance(one, Retried)]:
            break
    assert retries[0].status == 429 and 3500 < retries[0].delay_s < 3601
    await stage.jobs.cancel(f"job{stage.turn}")
    with pytest.raises(AgentBusy, match="429") as caught:
        agent.reply(task, await running, stage.output)
    assert caught.value.until is not None and 3500 < caught.value.until - began < 3700


async def test_a_quota_says_when_it_is_there_again(stage: Stage) -> None:
    began = time.time()
    with pytest.raises(AgentBusy, match="usage limit") as caught:
        await stage.say([{"text": "x", "limit": {"seconds": 7200, "kind": "quota"}}])
    # It tells the minute.
    assert caught.value.until is not None and abs(caught.value.until - began - 7200) < 120


async def test_a_prompt_that_is_too_long_is_a_failure(stage: Stage) -> None:
    model = stage.model([{"text": "x", "fail": {"status": 400, "times": "always", "type": "context"}}])
    with pytest.raises(AgentFailed, match="context window") as caught:
        await stage.play(stage.agent(model))
    assert caught.value.details["context_exceeded"] is True
    assert len(model.asked) == 1


async def test_a_request_that_is_refused_is_a_failure_in_the_servers_words(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match=r"agent codex: no such parameter$"):
        await stage.say([{"text": "x", "fail": {"status": 400, "times": "always", "message": "no such parameter"}}])


async def test_a_broken_server_of_tools_that_is_required_is_a_failure_that_names_it(stage: Stage) -> None:
    words = ("-c", 'mcp_servers.broken.command="/no/such/server"', "-c", "mcp_servers.broken.required=true")
    with pytest.raises(AgentFailed, match=r"(?s)exit 1.*required MCP servers failed.*broken"):
        await stage.play(stage.agent(stage.model([{"text": "x"}]), *words))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
async def test_a_signal_ends_it_as_a_failure_and_leaves_nothing_running(stage: Stage, how: signal.Signals) -> None:
    model = stage.model([{"bash": "(sleep 1000 & ) ; mkfifo held; echo running > ready; cat held"}, {"text": "never"}])
    agent = stage.agent(model)
    task, running = await started(stage, agent)
    listener = agent.listener()
    async for line in stage.jobs.lines(f"job{stage.turn}"):
        if any(isinstance(one, ToolCalled) for one in listener.hear(line)):
            break
    [codex] = [pid for pid, program in stage.processes().items() if program.endswith("/codex")][:1]
    os.kill(codex, how)
    exit = await asyncio.wait_for(running, timeout=20)
    with pytest.raises(AgentFailed, match=r"ended with exit|turn aborted|interrupted"):
        agent.reply(task, exit, stage.output)
    assert stage.processes() == {}


async def test_a_model_that_says_nothing_runs_into_the_idle_limit_and_leaves_nothing_running(stage: Stage) -> None:
    agent = stage.agent(stage.model([{"text": "x", "hang": True}]), limits=Limits(wall_s=60, idle_s=2))
    with pytest.raises(AgentTimedOut, match="silent for too long"):
        await stage.play(agent)
    assert stage.processes() == {}
