"""The contract of ports.Agent: any command can be an agent, and nothing it does is taken for more than it is."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resolvent.adapters.agents.command import CommandAgent
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import JobExit, Limits, Reply, Task, Usage
from resolvent.domain.prices import Price
from resolvent.domain.record import AgentChoice
from resolvent.errors import AgentFailed, AgentMissing, AgentTimedOut, MalformedAnswer

CONTRACT = {
    "RESOLVENT_RUN",
    "RESOLVENT_STEP",
    "RESOLVENT_ATTEMPT",
    "RESOLVENT_TURN",
    "RESOLVENT_SCHEMA",
    "RESOLVENT_ANSWER",
    "RESOLVENT_USAGE",
    "HOME",
    "TMPDIR",
    "PATH",
    "LANG",
}
GOOD = JobExit(ending="exited", exit=0, started_at=1.0, ended_at=2.0, seconds=1.0)


class Stage:
    """One agent, one workspace, and a private directory for the turn."""

    def __init__(self, path: Path) -> None:
        self.workspace = path / "workspace"
        self.workspace.mkdir()
        self.private = path / "private"
        self.jobs = SupervisedJobs(path / "jobs")
        self.output = path / "output"

    def task(self, prompt: str = "do it") -> Task:
        return Task(
            run="run-1",
            step="analyze",
            attempt=2,
            turn=1,
            prompt=prompt,
            json_schema='{"type": "object"}',
            directory=str(self.private),
            inside=str(self.private),
        )

    def agent(self, *command: str, allow: dict[str, str] | None = None, limits: Limits | None = None) -> CommandAgent:
        allowed = allow or {}
        choice = AgentChoice(
            name="mine", use="command", command=command, env=tuple(allowed), limits=limits or Limits(wall_s=60)
        )
        return CommandAgent("mine", choice, environment={**allowed, "FORGE_TOKEN": "never"})

    async def play(self, agent: CommandAgent, prompt: str = "do it") -> Reply:
        task = self.task(prompt)
        job = agent.job(task, id="job").model_copy(update={"cwd": str(self.workspace)})
        return agent.reply(task, await self.jobs.ensure(job), self.jobs.output("job"))

    async def shell(self, script: str, **options: object) -> Reply:
        return await self.play(self.agent("sh", "-c", script, **options))  # type: ignore[arg-type]

    def reply(self, agent: CommandAgent, exit: JobExit = GOOD) -> Reply:
        """What is read from what lies there, without a process."""
        self.private.mkdir(exist_ok=True)
        self.output.touch()
        return agent.reply(self.task(), exit, self.output)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# What the agent gets


@pytest.mark.spec("A5")
async def test_the_environment_is_the_contract_and_what_was_allowed_and_nothing_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "never")
    reply = await stage.play(stage.agent("env", "-0", allow={"MODEL_KEY": "sk-1"}))
    given = dict(line.split("=", 1) for line in reply.text.split("\0") if line)
    assert set(given) == CONTRACT | {"MODEL_KEY"}
    assert given["MODEL_KEY"] == "sk-1"
    assert given["RESOLVENT_RUN"] == "run-1"
    assert given["RESOLVENT_STEP"] == "analyze"
    assert given["RESOLVENT_ATTEMPT"] == "2"
    assert given["RESOLVENT_TURN"] == "1"
    assert json.loads(given["RESOLVENT_SCHEMA"]) == {"type": "object"}
    assert not Path(given["RESOLVENT_ANSWER"]).is_relative_to(stage.workspace)
    assert given["LANG"] == "C.UTF-8"


async def test_an_allowed_name_without_a_value_is_left_out(stage: Stage) -> None:
    choice = AgentChoice(name="mine", use="command", command=("env",), env=("UNSET_KEY",))
    reply = await stage.play(CommandAgent("mine", choice, environment={}))
    assert "UNSET_KEY" not in reply.text


async def test_no_allow_list_replaces_the_private_home_or_a_name_of_the_contract(stage: Stage) -> None:
    mine = {"HOME": "/root", "TMPDIR": "/tmp", "RESOLVENT_STEP": "other", "LANG": "de_DE.UTF-8"}
    given = stage.agent("env", allow=mine).job(stage.task(), id="job").environment
    assert (given["HOME"], given["TMPDIR"]) == (str(stage.private / "home"), str(stage.private / "tmp"))
    assert given["RESOLVENT_STEP"] == "analyze"
    assert given["LANG"] == "de_DE.UTF-8"


@pytest.mark.spec("A5")
async def test_home_and_tmpdir_are_there_and_private_and_the_answer_is_absent(stage: Stage) -> None:
    reply = await stage.shell('stat -c "%a %F" "$HOME" "$TMPDIR"; test ! -e "$RESOLVENT_ANSWER"')
    assert reply.text == "700 directory\n" * 2


@pytest.mark.spec("A5")
async def test_it_starts_in_the_workspace_with_the_prompt_on_standard_input(stage: Stage) -> None:
    reply = await stage.play(stage.agent("sh", "-c", "pwd; cat"), prompt="fix ünïcode\r\nwithout end")
    assert reply.text == f"{stage.workspace}\nfix ünïcode\r\nwithout end"


async def test_asking_for_the_same_job_again_does_not_touch_an_answer_that_is_there(stage: Stage) -> None:
    agent = stage.agent("sh", "-c", "true")
    first = agent.job(stage.task(), id="job")
    (stage.private / "answer.json").write_text("{}")
    assert agent.job(stage.task(), id="job") == first
    assert (stage.private / "answer.json").read_text() == "{}"


@pytest.mark.spec("A8")
@pytest.mark.parametrize("command", [(), ("",), ("no-such-agent",), ("/no/such/agent",), ("/etc/passwd",), ("/etc",)])
async def test_a_program_that_cannot_be_run_is_missing_and_the_error_says_what_to_type(
    stage: Stage, command: tuple[str, ...]
) -> None:
    with pytest.raises(
        AgentMissing, match=r"agent mine: (there is no program|/etc/passwd is not executable)"
    ) as caught:
        stage.agent(*command).job(stage.task(), id="job")
    assert caught.value.hint.startswith(("command -v ", "chmod +x "))
    assert ("looked for in" in caught.value.message) == (not "".join(command[:1]).startswith("/"))
    assert not stage.private.exists()


async def test_a_program_named_relative_to_nowhere_is_refused(stage: Stage) -> None:
    (stage.workspace / "agent.sh").write_text("#!/bin/sh\n")
    (stage.workspace / "agent.sh").chmod(0o755)
    with pytest.raises(AgentMissing, match=r"\./agent\.sh is relative"):
        stage.agent("./agent.sh").job(stage.task(), id="job")


async def test_an_allowed_value_that_is_not_text_arrives_byte_for_byte(stage: Stage) -> None:
    reply = await stage.play(stage.agent("sh", "-c", 'printf %s "$KEY" | od -An -tx1', allow={"KEY": "\udcff\x01"}))
    assert reply.text.split() == ["ff", "01"]


# What the agent leaves


async def test_standard_output_is_the_text_and_standard_error_is_not(stage: Stage) -> None:
    reply = await stage.shell("echo VERDICT=VALID; echo VERDICT=INVALID >&2")
    assert (reply.text, reply.answer, reply.usage) == ("VERDICT=VALID\n", None, Usage())


@pytest.mark.spec("A9")
async def test_the_answer_file_and_what_was_spent_are_read(stage: Stage) -> None:
    reply = await stage.shell(
        """printf '{"verdict": "NO_P0_P1"}' > "$RESOLVENT_ANSWER"
        printf '{"usd": 0.25, "input_tokens": 1000, "output_tokens": 20}' > "$RESOLVENT_USAGE" """
    )
    assert reply.answer == '{"verdict": "NO_P0_P1"}'
    assert reply.usage == Usage(usd=0.25, input_tokens=1000, output_tokens=20)


async def test_a_real_program_of_a_user_can_be_an_agent(stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "my_agent.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "prompt = sys.stdin.read()\n"
        "pathlib.Path('fixed.txt').write_text(prompt)\n"
        "pathlib.Path(os.environ['RESOLVENT_ANSWER']).write_text(json.dumps({'said': prompt}))\n"
    )
    reply = await stage.play(stage.agent(sys.executable, str(program)), prompt="hello")
    assert json.loads(reply.answer or "") == {"said": "hello"}
    assert (stage.workspace / "fixed.txt").read_text() == "hello"


async def test_the_text_is_the_end_of_a_long_output_and_bytes_that_are_no_text_are_replaced(stage: Stage) -> None:
    reply = await stage.shell(r"seq 1 2000000; printf '\377 VERDICT=VALID\n'")
    assert len(reply.text.encode()) >= 12 << 20
    assert len(reply.text) <= 12 << 20
    assert reply.text.endswith("2000000\n\ufffd VERDICT=VALID\n")


def _link(path: Path, elsewhere: Path) -> None:
    elsewhere.write_text("{}")
    path.symlink_to(elsewhere)


def _dangling(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def _directory_link(path: Path, elsewhere: Path) -> None:
    elsewhere.mkdir()
    (elsewhere / path.name).write_text("{}")
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(elsewhere)


WRONG_FILES: dict[str, Callable[[Path, Path], object]] = {
    "a link": _link,
    "a dangling link": _dangling,
    "a link in place of its directory": _directory_link,
    "a fifo": lambda path, _: os.mkfifo(path),
    "a directory": lambda path, _: path.mkdir(),
    "too large": lambda path, _: path.write_bytes(b"x" * ((1 << 20) + 1)),
    "endless": lambda path, _: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
    "not text": lambda path, _: path.write_bytes(b'{"verdict": "\xff"}'),
}


@pytest.mark.spec("A6")
@pytest.mark.parametrize("wrong", WRONG_FILES.values(), ids=WRONG_FILES)
async def test_an_answer_file_that_is_not_a_small_regular_text_is_malformed(
    stage: Stage, tmp_path: Path, wrong: Callable[[Path, Path], object]
) -> None:
    stage.private.mkdir()
    wrong(stage.private / "answer.json", tmp_path / "elsewhere")
    stage.output.write_text("VERDICT=VALID\n")
    with pytest.raises(MalformedAnswer, match="its answer file cannot be used") as caught:
        stage.reply(stage.agent("true"))
    assert caught.value.details["raw"] == "VERDICT=VALID\n"


@pytest.mark.spec("A6")
async def test_an_answer_of_exactly_the_largest_size_is_read(stage: Stage) -> None:
    stage.private.mkdir()
    (stage.private / "answer.json").write_bytes(b"x" * (1 << 20))
    assert len(stage.reply(stage.agent("true")).answer or "") == 1 << 20


async def test_a_directory_in_place_of_the_answer_leaves_nothing_open(stage: Stage) -> None:
    stage.private.mkdir()
    (stage.private / "answer.json").mkdir()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MalformedAnswer, match="not a regular file"):
        stage.reply(stage.agent("true"))
    assert len(os.listdir("/proc/self/fd")) == len(before)


async def test_an_empty_answer_file_is_an_answer_that_will_not_parse_and_not_none(stage: Stage) -> None:
    stage.private.mkdir()
    (stage.private / "answer.json").touch()
    assert stage.reply(stage.agent("true")).answer == ""


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    "usage",
    [
        *("", "nonsense", "[]", '{"usd": -5}', '{"usd": NaN}', '{"usd": 1e999}', '{"input_tokens": 1.5}', '{"x": 1}'),
        *('{"cached_tokens": -1}', '{"output_tokens": 1%s}' % ("0" * 400), '{"input_tokens": 1%s}' % ("0" * 20)),
    ],
)
async def test_senseless_usage_counts_as_none_and_loses_no_answer(stage: Stage, usage: str) -> None:
    stage.private.mkdir()
    (stage.private / "answer.json").write_text("{}")
    (stage.private / "usage.json").write_text(usage)
    assert stage.reply(stage.agent("true")) == Reply(text="", answer="{}", usage=Usage())


async def test_tokens_are_priced_where_a_person_said_what_they_cost(stage: Stage) -> None:
    stage.private.mkdir()
    (stage.private / "usage.json").write_text('{"input_tokens": 1000, "output_tokens": 20}')
    choice = AgentChoice(
        name="mine", use="command", command=("true",), price=Price(input=10.0, cached=1.0, output=100.0)
    )
    assert stage.reply(CommandAgent("mine", choice, environment={})).usage.usd == pytest.approx(0.012)


async def test_each_turn_tells_what_it_spent_itself_and_a_failed_one_too(stage: Stage) -> None:
    stage.private.mkdir()
    (stage.private / "usage.json").write_text('{"usd": 0.5}')
    again = stage.task().model_copy(update={"turn": 2})
    stage.output.touch()
    assert stage.agent("true").reply(again, GOOD, stage.output).usage == Usage()
    with pytest.raises(AgentFailed) as caught:
        stage.reply(stage.agent("true"), GOOD.model_copy(update={"exit": 1}))
    assert Usage.model_validate(caught.value.details["usage"]) == Usage(usd=0.5)


async def test_the_value_of_a_secret_that_it_may_see_is_kept_out_of_what_it_prints(stage: Stage) -> None:
    allow = {"MODEL_KEY": "sk-planted-0123456789", "EDITOR_NAME": "a-long-plain-word"}
    reply = await stage.play(stage.agent("env", allow=allow))
    assert "sk-planted" not in reply.text and "a-long-plain-word" in reply.text


async def test_a_link_in_place_of_the_usage_file_is_not_followed(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"usd": 1}')
    stage.private.mkdir()
    (stage.private / "usage.json").symlink_to(tmp_path / "elsewhere")
    assert stage.reply(stage.agent("true")).usage == Usage()


# How it can fail


async def test_an_exit_other_than_zero_is_a_failure_whatever_was_answered(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="agent mine: ended with exit 3") as caught:
        await stage.shell('echo VERDICT=VALID; echo {} > "$RESOLVENT_ANSWER"; exit 3')
    assert caught.value.details["exit"] == 3


@pytest.mark.spec("A7")
async def test_a_failure_shows_the_last_twenty_lines_of_standard_error_without_terminal_commands(stage: Stage) -> None:
    said = r"\033[31mred\033[0m\a\033]0;title\007\033[2J\r\n\303\233\302\233Kquota\000 spent\n\n"
    with pytest.raises(AgentFailed) as caught:
        await stage.shell(f"seq 100 130 >&2; printf '{said}' >&2; exit 1")
    lines = caught.value.message.splitlines()
    assert len(lines) == 1 + 20
    assert lines[1] == "113"
    assert lines[-2] == "red"
    assert "\x1b" not in caught.value.message and "\0" not in caught.value.message
    assert lines[-1].endswith("quota spent")


async def test_a_failure_that_said_nothing_on_standard_error_shows_standard_output(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="ended with exit 1\nno credit left"):
        await stage.shell("echo no credit left; exit 1")


async def test_a_crash_is_a_failure(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="ended with exit 139"):
        await stage.shell("kill -SEGV $$")


@pytest.mark.parametrize(
    ("script", "limits", "ending"),
    [
        ("exec sleep 1000", Limits(wall_s=0.2), "wall"),
        ("echo x; exec sleep 1000", Limits(wall_s=60, idle_s=0.2), "idle"),
        ("exec yes VERDICT=VALID", Limits(wall_s=60, output_bytes=10_000), "output"),
    ],
)
async def test_an_agent_that_runs_into_a_limit_timed_out(
    stage: Stage, script: str, limits: Limits, ending: str
) -> None:
    with pytest.raises(AgentTimedOut, match=r"agent mine .* and was stopped") as caught:
        await stage.shell(script, limits=limits)
    assert caught.value.details["ending"] == ending


async def test_a_script_whose_interpreter_is_missing_failed_and_says_why(stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(stat.S_IRWXU)
    with pytest.raises(AgentFailed, match=r"the command cannot be started: .*No such file or directory"):
        await stage.play(stage.agent(str(program)))


async def test_an_answer_whose_output_was_lost_to_a_full_disk_is_not_taken_for_whole(stage: Stage) -> None:
    stage.output.write_text("VERDICT=VALID\n")
    lost = GOOD.model_copy(update={"message": "output was lost: No space left on device"})
    with pytest.raises(AgentFailed, match="output was lost: No space left on device"):
        stage.reply(stage.agent("true"), lost)


async def test_a_cancelled_agent_failed(stage: Stage) -> None:
    with pytest.raises(AgentFailed, match="agent mine: was cancelled"):
        stage.reply(stage.agent("true"), GOOD.model_copy(update={"ending": "cancelled"}))
