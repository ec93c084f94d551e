"""The contract of ports.Agent for whatever speaks ACP: real processes, well behaved, hostile, and real goose."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from glob import glob
from pathlib import Path

import pytest
from tests.contract.boxed import trouble
from tests.contract.programs import readable
from tests.contract.workspace_stage import staged, text

from resolvent.adapters.agents.acp import AcpAgent
from resolvent.adapters.agents.model_server import PLACEHOLDER
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import Job, JobExit, Limits, Reply, Session, Task, Usage
from resolvent.domain.prices import Price
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import (
    FileChanged,
    Moment,
    Noticed,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
)
from resolvent.errors import (
    AgentBusy,
    AgentFailed,
    AgentMissing,
    AgentTimedOut,
    ConfigError,
    KeyRefused,
    MalformedAnswer,
)
from resolvent.settings import agent_named, load
from resolvent.testing.model import ScriptedModel

TINY = str(Path(__file__).with_name("acp_agent.py"))
KEY = "sk-never-in-a-file-4711"


def goose() -> str:
    """The real program: on the search path, or where scripts/npm-agents put it; empty when it is not here."""
    places = glob(f"{sys.prefix}/npm/node_modules/@aaif/goose-binary-*/bin/goose")
    return shutil.which("goose") or next(iter(places), "")


needs_goose = pytest.mark.skipif(not goose(), reason="goose is not installed: scripts/npm-agents installs it")
GUIDE = Path(__file__).parents[2] / "docs/guide/agents.md"
RECIPES = [text for text in re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text(), re.M | re.S) if 'use = "acp"' in text]


def recipe(text: str, directory: Path) -> AgentChoice:
    """The agent that a recipe of the guide defines, as our settings read it."""
    (directory / "resolvent.toml").write_text(text)
    (name,) = re.findall(r"^\[agents\.(\w+)\]", text, re.M)
    return agent_named(load(directory, environ={"HOME": str(directory)}), name)


class Stage:
    """One agent outside of any box, its workspace, and a private directory for all its turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workspace = path / "workspace"
        self.workspace.mkdir()
        self.private = path / "private"
        self.jobs = SupervisedJobs(path / "jobs")
        self.turns = 0

    def task(self, prompt: str = "do it", session: Session | None = None) -> Task:
        self.turns += 1
        return Task(
            run="run-1",
            step="analyze",
            attempt=1,
            turn=self.turns,
            prompt=prompt,
            json_schema='{"type": "object"}',
            directory=str(self.private),
            inside=str(self.private),
            session=session,
            boxed=False,
        )

    def agent(self, *how: str, patience_s: float = 60, **more: object) -> AcpAgent:
        choice = AgentChoice(
            name="tiny",
            use="acp",
            command=(sys.executable, TINY, *how),
            **{"limits": Limits(wall_s=60), **more},  # type: ignore[arg-type]
        )
        return AcpAgent(choice, environment={"FORGE_TOKEN": "never"}, patience_s=patience_s)

    async def play(self, agent: AcpAgent, task: Task | None = None) -> Reply:
        task = task or self.task()
        return agent.reply(task, await self.ended(agent, task), self.output(task))

    async def ended(self, agent: AcpAgent, task: Task) -> JobExit:
        return await self.jobs.ensure(self.job(agent, task))

    def job(self, agent: AcpAgent, task: Task) -> Job:
        return agent.job(task, id=f"job-{task.turn}").model_copy(update={"cwd": str(self.workspace)})

    def output(self, task: Task) -> Path:
        return self.jobs.output(f"job-{task.turn}")

    def moments(self, agent: AcpAgent) -> list[Moment]:
        listener = agent.listener()
        lines = self.jobs.output(f"job-{self.turns}").read_bytes().splitlines()
        return [moment for line in lines for moment in listener.hear(line)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# A turn that ends well


async def test_a_turn_leaves_its_words_what_it_spent_and_a_session(stage: Stage) -> None:
    reply = await stage.play(stage.agent("works"), stage.task("fix ünïcode"))
    assert reply.text == "You said: fix ünïcode\nThe verdict: \nVERDICT=VALID"
    assert reply.answer is None
    assert reply.usage == Usage(usd=0.25, input_tokens=100, cached_tokens=40, output_tokens=30)
    assert reply.session == Session(id="--first", spent=reply.usage)
    assert reply.notices == ()
    assert (stage.workspace / "new.txt").read_text() == "made\n"


async def test_what_it_did_is_told_moment_by_moment(stage: Stage) -> None:
    agent = stage.agent("works")
    await stage.play(agent)
    told = stage.moments(agent)
    assert told[:6] == [
        Thought(text="let me see"),
        ToolCalled(call="c1", tool="Write new.txt", input='{"path": "new.txt"}'),
        ToolAnswered(call="c1"),
        FileChanged(path=str(stage.workspace / "new.txt"), change="add"),
        ToolCalled(call="c2", tool="Run the tests", input='{"command": "make test"}'),
        ToolAnswered(call="c2", output="1 failed", failed=True),
    ]
    assert [moment.text for moment in told if isinstance(moment, Said)] == [
        "You said: do it",
        "The verdict: ",
        "VERDICT=VALID",
    ]
    assert [moment.usage.usd for moment in told if isinstance(moment, Spent)] == [0.25, 0.25]


async def test_a_later_turn_goes_on_with_the_session_and_counts_only_its_own_cost(stage: Stage) -> None:
    agent = stage.agent("works")
    first = await stage.play(agent, stage.task("one"))
    second = await stage.play(agent, stage.task("two", first.session))
    assert (stage.private / "home/session--first").read_text() == "one\ntwo\n"
    # What the agent repeats of the first turn is not said in the second.
    assert second.text == "You said: two\nThe verdict: \nVERDICT=VALID"
    assert second.usage.usd == 0.25
    assert second.session == Session(id="--first", spent=first.usage + second.usage)


async def test_an_agent_that_resumes_without_repeating_is_asked_to(stage: Stage) -> None:
    agent = stage.agent("resumes")
    first = await stage.play(agent, stage.task("one"))
    assert first.session is not None
    assert (await stage.play(agent, stage.task("two", first.session))).text.startswith("You said: two")


async def test_an_agent_that_cannot_go_on_gives_no_session(stage: Stage) -> None:
    agent = stage.agent("forgets")
    assert (await stage.play(agent)).session is None
    with pytest.raises(AgentFailed, match="cannot go on with a session") as caught:
        await stage.play(agent, stage.task("two", Session(id="--first")))
    assert caught.value.details["session_gone"] is True


async def test_a_session_that_is_gone_is_named_as_that(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="Resource not found") as caught:
        await stage.play(stage.agent("works"), stage.task("two", Session(id="other")))
    assert caught.value.details["session_gone"] is True


@pytest.mark.parametrize("id", ["", "a\0b", "a\nb", "x" * 2000])
async def test_a_session_whose_name_is_no_word_is_not_gone_on_with(stage: Stage, id: str) -> None:
    agent, task = stage.agent("works"), stage.task()
    output = stage.path / "output"
    output.write_text(json.dumps({"kind": "session", "id": id, "lasting": True}) + "\n")
    assert agent.session(task, output) is None


async def test_the_answer_file_is_read_and_a_link_in_its_place_is_not(stage: Stage) -> None:
    task = stage.task()
    agent = stage.agent("works")
    exit = await stage.ended(agent, task)
    (stage.private / "answer.json").write_text('{"verdict": "NO_P0_P1"}')
    assert agent.reply(task, exit, stage.output(task)).answer == '{"verdict": "NO_P0_P1"}'
    (stage.private / "answer.json").unlink()
    (stage.private / "answer.json").symlink_to("/etc/passwd")
    with pytest.raises(MalformedAnswer, match="answer file cannot be used"):
        agent.reply(task, exit, stage.output(task))


async def test_an_agent_made_with_the_official_library_is_understood(stage: Stage) -> None:
    agent = stage.agent("library")
    reply = await stage.play(agent)
    assert (reply.text, reply.session) == ("selected: do it", None)
    assert FileChanged(path=str(stage.workspace / "new.txt"), change="update") in stage.moments(agent)


async def test_an_agent_that_tells_tokens_only_is_priced(stage: Stage) -> None:
    price = Price(input=10.0, cached=1.0, output=100.0)
    reply = await stage.play(stage.agent("stops", "end_turn", price=price))
    assert reply.usage.usd == pytest.approx((60 * 10 + 40 * 1 + 30 * 100) / 1e6)
    assert reply.session is not None and reply.session.spent.usd == 0


async def test_a_turn_that_failed_is_paid_for_all_the_same(stage: Stage) -> None:
    price = Price(input=10.0, cached=1.0, output=100.0)
    with pytest.raises(AgentFailed) as caught:
        await stage.play(stage.agent("stops", "max_tokens", price=price))
    assert Usage.model_validate(caught.value.details["usage"]).usd == pytest.approx((60 * 10 + 40 * 1 + 30 * 100) / 1e6)


async def test_the_agent_sees_the_contract_its_variables_and_nothing_else(stage: Stage) -> None:
    agent = stage.agent("works", variables={"MODE": "auto", "LANG": "de_DE.UTF-8"}, env=("FORGE_TOKEN_2",))
    given = stage.job(agent, stage.task()).environment
    assert {name for name in given if not name.startswith("RESOLVENT_")} == {"PATH", "LANG", "HOME", "TMPDIR", "MODE"}
    assert given["LANG"] == "de_DE.UTF-8"
    assert given["HOME"] == str(stage.private / "home")


# Its model's server and key


def served(stage: Stage, *, boxed: bool, endpoint: str = "https://api.example.com", key: str = KEY) -> Job:
    choice = AgentChoice(
        name="tiny",
        use="acp",
        command=(sys.executable, TINY, "works", "--model={model}"),
        variables={"HOST": "{endpoint}/v1", "TOKEN": "{key}", "JSON": '{"a": {}}'},
        endpoint=endpoint,
        key="$MODEL_KEY",
        model="big{key}",
    )
    agent = AcpAgent(choice, environment={}, key=key)
    return agent.job(stage.task().model_copy(update={"boxed": boxed}), id="job")


def test_in_a_box_the_key_is_put_in_by_a_gateway_and_the_agent_gets_a_placeholder(stage: Stage) -> None:
    job = served(stage, boxed=True)
    (gateway,) = job.gateways
    assert gateway.upstream == "https://api.example.com"
    assert gateway.headers == {"Authorization": f"Bearer {KEY}"}
    assert job.environment["HOST"] == f"http://127.0.0.1:{gateway.port}/v1"
    assert job.environment["TOKEN"] == PLACEHOLDER
    assert job.environment["JSON"] == '{"a": {}}'
    assert job.argv[-1] == "--model=big{key}"
    assert KEY not in json.dumps([job.argv, job.environment, str(job.stdin)])
    # A secret all the same: its server may repeat it in an answer.
    assert job.secrets == (KEY,)


@pytest.mark.spec("A11")
def test_outside_of_a_box_the_key_goes_to_the_process_alone_and_is_a_secret(stage: Stage) -> None:
    job = served(stage, boxed=False)
    assert job.gateways == ()
    assert (job.environment["HOST"], job.environment["TOKEN"]) == ("https://api.example.com/v1", KEY)
    assert job.secrets == (KEY,)
    assert KEY not in job.argv


def test_a_key_never_stands_on_a_command_line(stage: Stage) -> None:
    about = {"name": "tiny", "use": "acp", "command": (sys.executable, TINY, "works", "--token={key}")}
    agent = AcpAgent(
        AgentChoice(**about, endpoint="https://api.example.com", key="$MODEL_KEY"), environment={}, key=KEY
    )
    inside = agent.job(stage.task().model_copy(update={"boxed": True}), id="job")
    assert inside.argv[-1] == f"--token={PLACEHOLDER}"
    with pytest.raises(ConfigError, match="would show its key") as caught:
        agent.job(stage.task().model_copy(update={"boxed": False}), id="job")
    assert "agents.tiny.variables" in caught.value.hint
    # Without an endpoint there is no gateway that could keep it, in a box neither.
    bare = AcpAgent(AgentChoice(**about, key="$MODEL_KEY"), environment={}, key=KEY)
    with pytest.raises(ConfigError):
        bare.job(stage.task().model_copy(update={"boxed": True}), id="job")


@pytest.mark.parametrize(
    ("endpoint", "header"),
    [
        ("https://api.anthropic.com", "x-api-key"),
        ("https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"),
        ("https://notanthropic.com", "Authorization"),
        ("http://127.0.0.1:8000", "Authorization"),
    ],
)
def test_the_key_is_put_where_its_server_looks_for_it(stage: Stage, endpoint: str, header: str) -> None:
    (gateway,) = served(stage, boxed=True, endpoint=endpoint).gateways
    assert list(gateway.headers) == [header]


def test_a_server_without_a_key_has_a_gateway_without_one(stage: Stage) -> None:
    (gateway,) = served(stage, boxed=True, key="").gateways
    assert gateway.headers == {}


# What stops a turn before it begins


def test_a_program_that_is_not_there_is_missing_and_the_error_says_what_to_type(stage: Stage) -> None:
    for command in ((), ("no-such-agent",), ("/no/such/agent",), ("./agent",), ("/etc/passwd",)):
        agent = AcpAgent(AgentChoice(name="tiny", use="acp", command=command), environment={})
        with pytest.raises(AgentMissing, match="agent tiny: ") as caught:
            agent.ready()
        assert caught.value.hint.startswith(("command -v ", "chmod +x ", "realpath "))
        with pytest.raises(AgentMissing):
            agent.job(stage.task(), id="job")


def test_without_the_library_the_error_says_how_to_get_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvent.adapters.agents.acp.IMPORTED", ("no_such_library",))
    with pytest.raises(AgentMissing, match="not installed") as caught:
        stage.agent("works").ready()
    assert caught.value.hint.startswith("make agents ")


def test_a_key_that_is_named_and_not_set_is_refused_before_anything_runs(stage: Stage) -> None:
    with pytest.raises(KeyRefused, match="MODEL_KEY is not set") as caught:
        stage.agent("works", key="$MODEL_KEY").ready()
    assert caught.value.hint == "export MODEL_KEY=…"


def test_a_model_that_nothing_tells_the_program_of_is_refused(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="nothing tells its program to use the model big"):
        stage.agent("works", model="big").ready()
    stage.agent("works", model="big", variables={"MODEL": "{model}"}).ready()


def test_only_a_program_of_its_own_is_asked_for_its_version(stage: Stage) -> None:
    assert stage.agent("works").asked_version() == ()
    agent = AcpAgent(AgentChoice(name="x", use="acp", command=("cat", "acp")), environment={})
    assert agent.asked_version() == (shutil.which("cat", path="/usr/local/bin:/usr/bin:/bin"), "--version")


async def test_an_agent_that_wants_a_login_gets_the_configured_one(stage: Stage) -> None:
    with pytest.raises(KeyRefused, match="Authentication required"):
        await stage.play(stage.agent("login"))
    with pytest.raises(AgentFailed, match="no method by-magic"):
        await stage.play(stage.agent("login", authenticate="by-magic"))
    assert (await stage.play(stage.agent("login", authenticate="by-key"))).text.startswith("You said")


# Permissions


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (("reject_once", "allow_once", "allow_always"), "selected o-allow_once"),
        (("reject_once", "allow_always"), "selected o-allow_always"),
    ],
)
async def test_what_it_asks_for_is_allowed_and_noticed(stage: Stage, offered: tuple[str, ...], chosen: str) -> None:
    agent = stage.agent("asks", *offered)
    reply = await stage.play(agent)
    assert reply.text == chosen
    assert reply.notices == ()
    assert Noticed(text="allowed, for it asked: rm -rf build") in stage.moments(agent)


async def test_a_question_without_a_way_to_allow_it_is_refused_and_stays_noticed(stage: Stage) -> None:
    reply = await stage.play(stage.agent("asks", "reject_once"))
    assert reply.text.strip() == "cancelled"
    assert reply.notices == ("not allowed, for it offered no way to: rm -rf build",)


async def test_files_and_terminals_of_ours_are_not_offered(stage: Stage) -> None:
    reply = await stage.play(stage.agent("reaches"))
    assert reply.text.count("['error', 'id', 'jsonrpc']") == 5


# Hostile and broken agents


async def test_numbers_that_no_machine_counts_in_are_none_and_cost_no_answer(stage: Stage) -> None:
    agent = stage.agent("spends")
    reply = await stage.play(agent)
    assert (reply.text, reply.usage) == ("VERDICT=VALID", Usage())
    assert [moment for moment in stage.moments(agent) if isinstance(moment, Spent)] == []


async def test_an_agent_that_dies_failed_and_what_it_said_last_is_shown(stage: Stage) -> None:
    agent = stage.agent("dies", "out of ideas")
    with pytest.raises(AgentFailed, match=r"agent tiny: ended with exit 3 in the middle of the turn\nout of ideas"):
        await stage.play(agent)
    assert [moment.text for moment in stage.moments(agent) if isinstance(moment, Said)] == ["so far", "so g"]


async def test_an_interrupted_turn_has_a_session_to_go_on_with(stage: Stage) -> None:
    agent, task = stage.agent("dies", "x"), stage.task()
    await stage.ended(agent, task)
    assert agent.session(task, stage.output(task)) == Session(id="--first")


async def test_an_agent_that_dies_of_a_lost_network_is_busy(stage: Stage) -> None:
    with pytest.raises(AgentBusy, match="exit 3"):
        await stage.play(stage.agent("dies", "error: connection refused"))


async def test_an_agent_that_is_killed_failed(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="ended with signal 9"):
        await stage.play(stage.agent("killed"))


async def test_an_agent_that_never_answers_is_given_up_after_a_bounded_time(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match=r"gave no answer to initialize within 0\.5 s") as caught:
        await stage.play(stage.agent("silent", patience_s=0.5))
    assert "does it speak ACP" in caught.value.hint


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("nonsense", "printed 1000 lines that are no messages"),
        ("endless", "sent a message of more than 16 MiB"),
        ("wrong", "gave an answer that is not after the protocol"),
        ("odd", "no reason at all"),
        ("newer", "speaks version 7 of ACP; 1 is needed"),
        ("huge", "sent a message of more than 16 MiB"),
    ],
)
async def test_an_agent_that_does_not_keep_the_protocol_failed_and_says_why(stage: Stage, how: str, why: str) -> None:
    with pytest.raises(AgentFailed, match=why):
        await stage.play(stage.agent(how, patience_s=20))


async def test_lines_that_are_no_messages_do_not_stop_a_turn(stage: Stage) -> None:
    agent = stage.agent("strays")
    assert (await stage.play(agent)).text.endswith("VERDICT=VALID")
    notices = [moment.text for moment in stage.moments(agent) if isinstance(moment, Noticed)]
    assert "a line that is no message: INFO ready" in notices


async def test_an_agent_that_logs_between_its_messages_may_do_so_for_as_long_as_it_works(stage: Stage) -> None:
    assert (await stage.play(stage.agent("logs"))).text == "working\n" * 3


async def test_half_a_character_costs_no_message(stage: Stage) -> None:
    assert (await stage.play(stage.agent("halves"))).text == "half ? a pair"


async def test_ten_megabytes_in_one_message_are_kept_whole_and_shown_in_pieces(stage: Stage) -> None:
    agent = stage.agent("big")
    reply = await stage.play(agent)
    assert len(reply.text) == (10 << 20) + len("\nVERDICT=VALID")
    assert reply.text.endswith("x\nVERDICT=VALID")
    told = stage.moments(agent)
    assert max(len(moment.text) for moment in told if isinstance(moment, Said)) <= 1 << 16
    (answered,) = [moment for moment in told if isinstance(moment, ToolAnswered)]
    assert len(answered.output) < 70_000 and "characters" in answered.output


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal", "cancelled"])
async def test_a_turn_that_stopped_for_another_reason_than_its_end_failed(stage: Stage, reason: str) -> None:
    with pytest.raises(AgentFailed) as caught:
        await stage.play(stage.agent("stops", reason))
    assert caught.value.details["stop_reason"] == reason


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-32000", "Authentication required"), KeyRefused),
        (("-32603", "Internal error", '{"details": "401 Unauthorized: Incorrect API key provided"}'), KeyRefused),
        (("-32603", "Internal error", '{"details": "HTTP 429 Too Many Requests"}'), AgentBusy),
        (("-32603", "Internal error", '"Overloaded"'), AgentBusy),
        (("-32603", "Internal error", '["upstream connect error: status 503"]'), AgentBusy),
        (("-32603", "prompt is too long: 250000 tokens > 200000 maximum"), AgentFailed),
        (("-32603", "there are 429 files and 401 lines"), AgentFailed),
    ],
)
async def test_a_refused_prompt_says_who_must_act(stage: Stage, words: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        await stage.play(stage.agent("refuses", *words))
    assert type(caught.value) is error


async def test_a_refusal_that_states_a_time_says_until_when(stage: Stage) -> None:
    task = stage.task()
    agent = stage.agent("refuses", "-32603", "Rate limit reached. Please try again in 90 seconds.")
    exit = await stage.ended(agent, task)
    with pytest.raises(AgentBusy) as caught:
        agent.reply(task, exit, stage.output(task))
    assert caught.value.until == pytest.approx(exit.ended_at + 90)


async def test_a_time_that_only_its_gateway_heard_of_is_known_too(stage: Stage) -> None:
    task = stage.task()
    agent = stage.agent("refuses", "-32603", "HTTP 429 Too Many Requests")
    exit = await stage.ended(agent, task)
    stage.output(task).with_name("network").write_text(f"away 127.0.0.1:1 429 {exit.ended_at - 10:.3f} 90\n")
    with pytest.raises(AgentBusy) as caught:
        agent.reply(task, exit, stage.output(task))
    assert caught.value.until == pytest.approx(exit.ended_at + 80, abs=0.01)


# As goose 1.50 says them, with stop reason end_turn and exit 0.
RETRY = "\n\nPlease retry if you think this is a transient or recoverable error."
SERVER = "Ran into this error: Server error: Server error (500 Internal Server Error) at http://x/v1/responses: boom."
STREAM = "Network error: Stream decode error: error decoding response body\n\nPlease resend your message to try again."
EMPTY = "The model returned an empty response. Please resend your message to continue."
CONTEXT = "Unable to continue: Context limit still exceeded after compaction. Try using a shorter message."


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Ran into this error: Rate limit exceeded: slow down." + RETRY, AgentBusy),
        (SERVER + RETRY, AgentBusy),
        (STREAM, AgentBusy),
        (EMPTY, AgentBusy),
        (CONTEXT, AgentFailed),
    ],
)
async def test_an_error_that_goose_says_as_words_is_an_error(stage: Stage, said: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        await stage.play(stage.agent("named", "goose", "I begin.\n", said))
    assert type(caught.value) is error


async def test_such_words_in_the_middle_or_of_another_program_are_words(stage: Stage) -> None:
    assert (await stage.play(stage.agent("named", "goose", EMPTY, "\nAnd went on."))).text.endswith("And went on.")
    assert (await stage.play(stage.agent("named", "other", EMPTY))).text == EMPTY


async def test_a_limit_of_the_job_is_a_time_out(stage: Stage) -> None:
    with pytest.raises(AgentTimedOut, match="took too long"):
        await stage.play(stage.agent("silent", limits=Limits(wall_s=0.5, grace_s=5)))


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\xff", b"{", b"[]", b"5", b"{" * 100_000, b'{"kind": 5}', b'{"kind": "text"}',
        b'{"kind": "text", "text": 5}',
        b'{"kind": "text", "text": "x", "more": 1}', b'{"kind": "usage", "usage": {"usd": "x"}}', b'{"kind": "ended"}',
        b'{"kind": "session", "id": []}', b'{"kind": "tool_call", "call": 1}', b'{"kind": "text", "text": "\\n"}',
    ],
)  # fmt: skip
async def test_a_line_that_cannot_be_read_tells_nothing(stage: Stage, line: bytes) -> None:
    assert stage.agent("works").listener().hear(line) == ()


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b'{"kind": "text", "text": "VERDICT=VALID"}'],
        [b'{"kind": "ended", "stop_reason": 5}'],
        [b'{"kind": "ended", "stop_reason": ""}'],
        [b'{"kind": "ended", "stop_reason": "end_turn", "error": {"reason": "died", "message": "x"}}'],
        [b'{"kind": "ended", "stop_reason": "end_turn"}', b'{"kind": "ended", "stop_reason": {}}'],
    ],
)
async def test_no_output_passes_for_a_turn_that_ended_well_but_one_that_says_so(
    stage: Stage, lines: list[bytes]
) -> None:
    output = stage.path / "output"
    output.write_bytes(b"\n".join(lines))
    exit = JobExit(ending="exited", exit=0, started_at=1.0, ended_at=2.0, seconds=1.0)
    with pytest.raises(AgentFailed):
        stage.agent("works").reply(stage.task(), exit, output)


async def test_a_good_end_with_a_bad_exit_is_no_good_end(stage: Stage) -> None:
    output = stage.path / "output"
    output.write_bytes(b'{"kind": "ended", "stop_reason": "end_turn"}\n')
    exit = JobExit(ending="exited", exit=1, started_at=1.0, ended_at=2.0, seconds=1.0)
    with pytest.raises(AgentFailed, match="exit 1"):
        stage.agent("works").reply(stage.task(), exit, output)


# Ending it


@pytest.fixture
async def fifo(stage: Stage) -> AsyncIterator[int]:
    """Becomes readable when the agent is in the middle of its turn, and holds its process id."""
    os.mkfifo(stage.path / "ready")
    descriptor = os.open(stage.path / "ready", os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("how", ["waits", "stubborn"])
async def test_a_cancelled_turn_leaves_no_process_behind(stage: Stage, fifo: int, how: str) -> None:
    agent, task = stage.agent(how, variables={"READY": str(stage.path / "ready")}), stage.task()
    running = asyncio.create_task(stage.ended(agent, task))
    await readable(fifo)
    pid = int(os.read(fifo, 100))
    await stage.jobs.cancel("job-1")
    exit = await running
    assert exit.ending == "cancelled"
    assert gone(pid)
    with pytest.raises(AgentFailed, match="was cancelled"):
        agent.reply(task, exit, stage.output(task))
    assert agent.session(task, stage.output(task)) == Session(id="--first")


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGINT])
async def test_the_driver_asks_its_agent_to_end_the_turn_before_it_goes(
    stage: Stage, fifo: int, signalled: signal.Signals
) -> None:
    agent = stage.agent("waits", variables={"READY": str(stage.path / "ready")})
    job = stage.job(agent, stage.task())
    pipe = asyncio.subprocess.PIPE
    driver = await asyncio.create_subprocess_exec(
        *job.argv, cwd=job.cwd, env=job.environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe
    )
    await readable(fifo)
    pid = int(os.read(fifo, 100))
    driver.send_signal(signalled)
    said, _ = await driver.communicate()
    assert driver.returncode == 128 + signal.SIGTERM
    assert json.loads(said.splitlines()[-1])["stop_reason"] == "cancelled"
    assert (stage.workspace / "cancelled.txt").read_text() == "in good order"
    assert gone(pid)


# In a box


async def boxed_turn(path: Path, agent: AcpAgent, prompt: str = "do it") -> tuple[Reply, Path, str]:
    """The reply of one turn in a branch with walls, its output, and what the agent changed."""
    if trouble():
        pytest.skip(trouble())
    stage, jobs = await staged("overlay", path), SupervisedJobs(path / "jobs")
    try:
        branch = await stage.workspace.root(await stage.commit({"README.md": text("hello\n")}), id="r")
        private = path / "private"
        task = Stage.task(Stage(path), prompt).model_copy(
            update={"boxed": True, "directory": str(private), "inside": stage.workspace.inside(str(private))}
        )
        job = agent.job(task, id="job")
        exit = await jobs.ensure(await stage.workspace.enter(branch, job, private=str(private)))
        reply = agent.reply(task, exit, jobs.output("job"))
        change = await stage.workspace.export(branch, message="m", at=1)
        diff = "" if change is None else str(sorted(await stage.tree(change)))
        return reply, jobs.output("job"), diff
    finally:
        await stage.close()


async def test_the_library_is_there_inside_a_box(tmp_path: Path) -> None:
    choice = AgentChoice(name="tiny", use="acp", command=(sys.executable, TINY, "works"), limits=Limits(wall_s=60))
    reply, _, diff = await boxed_turn(tmp_path, AcpAgent(choice, environment={}))
    assert reply.text.endswith("VERDICT=VALID")
    assert "new.txt" in diff


def goose_agent(model: ScriptedModel, place: Path, *, key: str = KEY) -> AcpAgent:
    """Goose after the recipe of the guide, but for where its program and its model are."""
    place.joinpath("settings").mkdir()
    choice = recipe(RECIPES[0], place / "settings")
    mine = {"command": (goose(), *choice.command[1:]), "endpoint": model.url, "limits": Limits(wall_s=60)}
    return AcpAgent(choice.model_copy(update=mine), environment={}, key=key)


def test_every_recipe_of_the_guide_is_one_that_our_settings_take(tmp_path: Path) -> None:
    choices = [recipe(text, tmp_path) for text in RECIPES]
    assert [choice.name for choice in choices] == ["goose", "copilot", "gemini", "qwen", "opencode"]
    for choice in choices:
        ready = choice.model_copy(update={"command": ("true", *choice.command[1:])})
        AcpAgent(ready, environment={}, key=KEY).ready()


EDITS = [
    {"write": {"path": "{cwd}/new.txt", "content": "old\n"}},
    {"bash": "cat new.txt && env > seen.txt"},
    {"edit": {"path": "{cwd}/new.txt", "old": "old", "new": "changed"}},
    {"text": "Done.\nVERDICT=VALID", "usage": {"in": 1200, "out": 34}},
]


@needs_goose
async def test_real_goose_edits_in_a_box_and_its_key_never_gets_there(tmp_path: Path) -> None:
    with ScriptedModel(EDITS, key=KEY) as model:
        reply, output, diff = await boxed_turn(tmp_path, goose_agent(model, tmp_path))
        assert all(seen.key_came for seen in model.asked) and len(model.asked) == 4
    assert reply.text.endswith("Done.\nVERDICT=VALID")
    assert reply.usage.usd > 0 and reply.usage.output_tokens == 34
    assert reply.session is not None
    assert "new.txt" in diff
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert output in files
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@needs_goose
async def test_real_goose_goes_on_with_its_session_in_another_process(stage: Stage) -> None:
    with ScriptedModel([{"text": "first"}, {"text": "second"}]) as model:
        agent = goose_agent(model, stage.path)
        first = await stage.play(agent, stage.task("one"))
        second = await stage.play(agent, stage.task("two", first.session))
    assert (first.text, second.text) == ("first", "second")
    assert first.session is not None and second.session is not None
    assert second.session.id == first.session.id
    assert 0 < second.usage.usd < second.session.spent.usd


@needs_goose
async def test_real_goose_whose_key_is_wrong_is_refused_at_once(stage: Stage) -> None:
    with ScriptedModel([{"text": "never"}], key="another") as model:
        with pytest.raises(KeyRefused) as caught:
            await stage.play(goose_agent(model, stage.path))
        assert {seen.status for seen in model.asked} == {401}
    assert caught.value.hint == "export OPENAI_API_KEY=…"


@needs_goose
async def test_real_goose_whose_model_is_down_is_busy_though_it_says_all_is_well(stage: Stage) -> None:
    steps = [{"text": "never", "fail": {"status": 500, "times": "always"}}]
    with ScriptedModel(steps) as model, pytest.raises(AgentBusy, match="500"):
        await stage.play(goose_agent(model, stage.path))


@needs_goose
async def test_real_goose_whose_stream_is_cut_is_busy(stage: Stage) -> None:
    steps = [{"text": "never to be seen whole", "cut": {"times": 100}}]
    with ScriptedModel(steps) as model, pytest.raises(AgentBusy):
        await stage.play(goose_agent(model, stage.path))


@needs_goose
async def test_real_goose_that_waits_for_its_model_is_cancelled_with_all_its_children(stage: Stage) -> None:
    with ScriptedModel([{"text": "x", "hang": True}]) as model:
        agent, task = goose_agent(model, stage.path), stage.task()
        running = asyncio.create_task(stage.ended(agent, task))
        await model.requests(1)
        await stage.jobs.cancel("job-1")
        assert (await running).ending == "cancelled"
    assert agent.session(task, stage.output(task)) is not None
