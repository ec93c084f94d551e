"""What agents print and leave is hostile input: none of it is a crash, or is taken for more than it is."""

import json
import os
import pwd
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resolvent.adapters.agents import lines, programs
from resolvent.adapters.agents.claude import ClaudeAgent
from resolvent.adapters.agents.claude_turn import ended_turn
from resolvent.adapters.agents.endings import noted_reset, reset_time
from resolvent.adapters.agents.lines import Objects
from resolvent.adapters.agents.programs import CLAUDE, contract, find, lay_out, left, put
from resolvent.domain.job import JobExit, Session, Task, Usage
from resolvent.domain.prices import Price
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import MOMENT, MOST_TEXT, Retried, Said, Spent, ToolAnswered
from resolvent.errors import AgentBusy, AgentFailed, AgentMissing, KeyRefused, MalformedAnswer, ResolventError

GOOD = JobExit(ending="exited", exit=0, started_at=1.0, ended_at=2.0, seconds=1.0)
SESSION = "11111111-1111-4111-8111-111111111111"
RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "done",
    "session_id": SESSION,
}
LONE = "\ud800"


def task(directory: Path, **about: Any) -> Task:
    asked = {"run": "r", "step": "s", "attempt": 1, "turn": 1, "prompt": "p", "json_schema": ""} | about
    return Task(directory=str(directory), inside=str(directory), **asked)


def agent(**choice: Any) -> ClaudeAgent:
    return ClaudeAgent(AgentChoice(name="mine", use="claude", **choice), environment={}, key="sk-ant-whatever")


def printed(path: Path, *events: Any) -> Path:
    output = path / "output"
    raw = (event if isinstance(event, bytes) else json.dumps(event).encode() for event in events)
    output.write_bytes(b"\n".join(raw) + b"\n")
    return output


# Lines


def test_only_lines_that_are_objects_are_taken_and_the_others_are_counted(tmp_path: Path) -> None:
    odd = [b"", b"  ", b"nonsense", b"[1]", b"3", b'{"a": ', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000]
    output = printed(tmp_path, {"n": 1}, *odd, {"n": 2}, b'{"bytes": "\xff"}', b' {"n": 3}\r')
    objects = Objects(output)
    assert list(objects) == [{"n": 1}, {"n": 2}, {"bytes": "\ufffd"}, {"n": 3}]
    assert objects.skipped == len(odd) - 2
    assert list(Objects(tmp_path / "nowhere")) == []


def test_a_line_that_is_longer_than_any_may_be_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_LINE", 100)
    output = printed(tmp_path, {"n": 1}, {"n": "x" * 1000}, {"n": 2}, {"n": "y" * 400})
    objects = Objects(output)
    assert (list(objects), objects.skipped) == ([{"n": 1}, {"n": 2}], 2)


def test_the_end_alone_begins_with_a_whole_line(tmp_path: Path) -> None:
    output = printed(tmp_path, *({"n": number} for number in range(1000)))
    size = len(b'{"n": 999}\n')
    assert list(Objects(output, last=size)) == [{"n": 999}]
    assert list(Objects(output, last=size + 1)) == [{"n": 999}]
    assert list(Objects(output, last=size - 1)) == []
    assert len(list(Objects(output, last=1 << 20))) == 1000


def test_only_lines_that_hold_a_word_are_looked_at(tmp_path: Path) -> None:
    output = printed(tmp_path, {"type": "user"}, b"nonsense", {"type": "result"})
    objects = Objects(output, holding=(b'"result"',))
    assert (list(objects), objects.skipped) == ([{"type": "result"}], 0)


def test_values_of_another_type_are_nothing() -> None:
    nothing: tuple[object, ...] = (None, True, -1, float("nan"), float("inf"), 1e400, 10**400, "3", [], {})
    for wrong in nothing:
        assert (lines.number(wrong), lines.count(wrong)) == (0, 0)
    assert (lines.count(3.7), lines.number(3)) == (3, 3.0)
    assert lines.count(1 << 60) == 0
    assert (lines.text(3), lines.mapping([1]), lines.rows({"a": 1}), lines.rows([1, {"a": 1}])) == (
        "",
        {},
        [],
        [{"a": 1}],
    )


def test_text_can_be_stored_whatever_it_was() -> None:
    assert lines.text(f"a{LONE}b") == "a?b"
    assert lines.shown({"a": LONE}) == '{"a": "?"}'
    long = lines.text("x" * (10 * MOST_TEXT))
    assert MOST_TEXT <= len(long) < MOST_TEXT + 100


# Moments and ends of claude

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(LONE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    *("type", "subtype", "message", "content", "text", "id", "input", "tool_use_id", "usage", "session_id", "result"),
    *("is_error", "errors", "modelUsage", "attempt", "rate_limit_info", "status", "resetsAt", "permission_denials"),
    *("mcp_servers", "structured_output", "total_cost_usd", "name", "error_status", "model_usage_since_last_result"),
    *("tool_use_result", "file_path", "is_api_error_message", "error", "retry_delay_ms", "api_error_status"),
]
BLOCKS = ["text", "thinking", "tool_use", "tool_result", "Write", "Bash", "rejected", "failed"]
shapes = st.recursive(
    json_values | st.sampled_from(BLOCKS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)
# Of a kind that is listened to, with whatever in it.
some_event = st.builds(
    lambda kind, subtype, rest: rest | {"type": kind, "subtype": subtype},
    st.sampled_from(["system", "assistant", "user", "result", "rate_limit_event"]),
    st.sampled_from(["init", "api_retry", "permission_denied", "success"]),
    st.dictionaries(st.sampled_from(NAMES), shapes, max_size=6),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(some_event | st.binary(max_size=50), max_size=5))
def test_no_line_is_a_crash_and_every_moment_can_be_stored(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any]
) -> None:
    directory = tmp_path_factory.getbasetemp()
    output = printed(directory, *events)
    listener = agent().listener()
    with output.open("rb") as printed_lines:
        for line in printed_lines:
            for moment in listener.hear(line):
                assert MOMENT.validate_json(moment.model_dump_json()) == moment
    (directory / "errors").touch()
    mine = agent()
    mine.session(task(directory), output)
    try:
        reply = mine.reply(task(directory), GOOD, output)
    except ResolventError:
        return
    reply.model_dump_json()
    results = [event for event in events if isinstance(event, dict) and event.get("type") == "result"]
    assert results and results[-1]["is_error"] is False


@pytest.mark.spec("A10")
@pytest.mark.parametrize(
    "result",
    [
        None,
        RESULT | {"is_error": True},
        RESULT | {"is_error": None},
        RESULT | {"is_error": 0},
        RESULT | {"is_error": "false"},
        {name: value for name, value in RESULT.items() if name != "is_error"},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": json.dumps(RESULT)}]}},
        [RESULT],
        json.dumps(RESULT).encode()[:-1],
    ],
)
def test_nothing_but_a_result_without_error_is_a_good_end(tmp_path: Path, result: Any) -> None:
    with pytest.raises(AgentFailed):
        agent().reply(task(tmp_path), GOOD, printed(tmp_path, result))


def test_a_good_result_of_a_process_that_ended_badly_is_none(tmp_path: Path) -> None:
    output = printed(tmp_path, RESULT)
    assert agent().reply(task(tmp_path), GOOD, output).text == "done"
    with pytest.raises(AgentFailed, match="ended with exit 137 after its result"):
        agent().reply(task(tmp_path), GOOD.model_copy(update={"exit": 137}), output)
    with pytest.raises(AgentFailed, match="output was lost"):
        agent().reply(task(tmp_path), GOOD.model_copy(update={"message": "output was lost: disk full"}), output)


def test_the_last_result_counts(tmp_path: Path) -> None:
    broken = RESULT | {"is_error": True, "result": "", "errors": ["it broke"], "subtype": "error_during_execution"}
    with pytest.raises(AgentFailed, match="agent mine: error_during_execution: it broke"):
        agent().reply(task(tmp_path), GOOD, printed(tmp_path, RESULT, broken))
    assert agent().reply(task(tmp_path), GOOD, printed(tmp_path, broken, RESULT)).text == "done"


@pytest.mark.parametrize("id", ["", "--dangerously-skip-permissions", "../../elsewhere", SESSION + "x", 3, None])
def test_a_session_is_an_id_and_nothing_that_could_be_an_option(tmp_path: Path, id: Any) -> None:
    turn = ended_turn(printed(tmp_path, {"type": "system", "subtype": "init", "session_id": id}))
    assert turn.session == ""
    assert agent().reply(task(tmp_path), GOOD, printed(tmp_path, RESULT | {"session_id": id})).session is None


def test_a_program_that_tells_only_sums_of_its_session_is_charged_what_came_on_top(tmp_path: Path) -> None:
    models = {"one": {"costUSD": 0.4, "inputTokens": 70, "cacheReadInputTokens": 30, "outputTokens": 10}}
    models["two"] = {"costUSD": 0.1, "inputTokens": 5, "cacheReadInputTokens": 0, "outputTokens": 1}
    output = printed(tmp_path, RESULT | {"total_cost_usd": 0.5, "modelUsage": models})
    total = Usage(usd=0.5, input_tokens=105, cached_tokens=30, output_tokens=11)
    before = Session(id=SESSION, spent=Usage(usd=0.2, input_tokens=100, cached_tokens=30, output_tokens=1))
    reply = agent().reply(task(tmp_path, session=before), GOOD, output)
    assert reply.session == Session(id=SESSION, spent=total)
    assert reply.usage == Usage(usd=0.5 - 0.2, input_tokens=5, cached_tokens=0, output_tokens=10)
    # It forgot what it had spent: then what it tells is all of this turn.
    forgot = Session(id=SESSION, spent=Usage(usd=9.0))
    assert agent().reply(task(tmp_path, session=forgot), GOOD, output).usage == total


def test_usage_is_told_once_per_message_and_set_right_by_the_result() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 1, "output_tokens": 2}
    message = {"id": "m1", "usage": usage, "content": [{"type": "text", "text": "hi"}]}
    since = {"model_usage_since_last_result": {"m": {"costUSD": 0.5, "inputTokens": 40, "outputTokens": 9}}}
    events = [{"type": "assistant", "message": message}] * 3
    events += [{"type": "assistant", "message": message | {"id": "m2"}}, RESULT | since, RESULT | since]
    listener = agent().listener()
    moments = [moment for event in events for moment in listener.hear(json.dumps(event).encode())]
    live = Usage(input_tokens=16, cached_tokens=10, output_tokens=2)
    told = Usage(usd=0.5, input_tokens=40, output_tokens=9)
    assert [one.usage for one in moments if isinstance(one, Spent)] == [live, live + live, told, told + told]
    assert len([one for one in moments if isinstance(one, Said)]) == 4


def test_parts_of_an_answer_of_a_tool_are_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image"}, 3, {"type": "text", "text": "two"}]
    block = {"type": "tool_result", "tool_use_id": "t", "content": parts, "is_error": True}
    event = {"type": "user", "message": {"content": [block]}}
    (moment,) = agent().listener().hear(json.dumps(event).encode())
    assert moment == ToolAnswered(call="t", output="one\n[image]\ntwo", failed=True)


def test_a_refusal_is_for_whom_it_concerns_also_when_no_result_came(tmp_path: Path) -> None:
    def retry(status: int | None, error: str) -> dict[str, Any]:
        about = {"attempt": 2, "retry_delay_ms": 30_000, "error_status": status, "error": error}
        return {"type": "system", "subtype": "api_retry", **about}

    mine, cancelled = agent(), GOOD.model_copy(update={"ending": "cancelled", "exit": 143, "ended_at": 1000.0})
    with pytest.raises(KeyRefused):
        mine.reply(task(tmp_path), cancelled, printed(tmp_path, retry(401, "authentication_failed")))
    with pytest.raises(AgentBusy) as caught:
        mine.reply(task(tmp_path), cancelled, printed(tmp_path, retry(429, "rate_limit")))
    assert caught.value.until == 1030.0
    with pytest.raises(AgentBusy) as caught:
        mine.reply(task(tmp_path), cancelled, printed(tmp_path, retry(None, "unknown")))
    assert caught.value.until is None
    went_on = {"type": "assistant", "message": {"content": []}}
    with pytest.raises(AgentFailed, match="was cancelled"):
        mine.reply(task(tmp_path), cancelled, printed(tmp_path, retry(429, "rate_limit"), went_on))
    heard = mine.listener().hear(json.dumps(retry(401, "authentication_failed")).encode())
    assert heard == (Retried(attempt=2, status=401, reason="authentication_failed", delay_s=30.0),)


@pytest.mark.parametrize("moment", [1.7e12, 1e300])
def test_a_reset_that_is_no_time_anybody_means_is_none(tmp_path: Path, moment: float) -> None:
    limited = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": moment}}
    ended = RESULT | {"is_error": True, "api_error_status": 529}
    with pytest.raises(AgentBusy) as caught:
        agent().reply(task(tmp_path), GOOD.model_copy(update={"exit": 1}), printed(tmp_path, limited, ended))
    assert caught.value.until is None
    retry = {"type": "system", "subtype": "api_retry", "error_status": 429, "retry_delay_ms": moment}
    stopped = GOOD.model_copy(update={"ending": "cancelled", "exit": 143})
    with pytest.raises(AgentBusy) as caught:
        agent().reply(task(tmp_path), stopped, printed(tmp_path, retry))
    assert caught.value.until is not None and caught.value.until < 1e8


def test_what_is_spent_before_the_result_has_a_price(tmp_path: Path) -> None:
    message = {"id": "m1", "model": "claude-opus-5-5", "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}
    line = json.dumps({"type": "assistant", "message": message}).encode()
    (spent,) = agent().listener().hear(line)
    assert spent == Spent(usage=Usage(usd=5.0, input_tokens=1_000_000))
    own = Price(input=7, cached=1, output=1)
    assert agent(price=own).listener().hear(line)[0].usage.usd == 7.0


def test_what_a_stopped_turn_could_not_tell_is_charged_with_the_next(tmp_path: Path) -> None:
    models = {"m": {"costUSD": 0.7, "inputTokens": 120, "outputTokens": 1}}
    since = {"m": {"costUSD": 0.1, "inputTokens": 20, "outputTokens": 1}}
    told = {"total_cost_usd": 0.7, "modelUsage": models, "model_usage_since_last_result": since}
    output = printed(tmp_path, RESULT | told)
    for before, charged in ((0.0, 0.7), (0.5, 0.2), (0.65, 0.1), (9.0, 0.7)):
        session = Session(id=SESSION, spent=Usage(usd=before))
        assert agent().reply(task(tmp_path, session=session), GOOD, output).usage.usd == pytest.approx(charged), before


def test_credit_that_is_used_up_is_for_a_person_to_act_on(tmp_path: Path) -> None:
    said = {"type": "assistant", "is_api_error_message": True, "error": "billing_error", "message": {}}
    end = RESULT | {"is_error": True, "result": "Credit balance is too low", "api_error_status": 400}
    with pytest.raises(KeyRefused, match="Credit balance is too low") as caught:
        agent().reply(task(tmp_path), GOOD.model_copy(update={"exit": 1}), printed(tmp_path, said, end))
    assert "add credit" in caught.value.hint


def test_a_schema_that_was_given_up_is_a_malformed_answer(tmp_path: Path) -> None:
    end = RESULT | {"is_error": True, "subtype": "error_max_structured_output_retries"}
    with pytest.raises(MalformedAnswer):
        agent().reply(task(tmp_path), GOOD.model_copy(update={"exit": 1}), printed(tmp_path, end))


def test_an_answer_file_that_is_a_link_is_malformed(tmp_path: Path) -> None:
    (tmp_path / "answer.json").symlink_to("/etc/passwd")
    with pytest.raises(MalformedAnswer, match="its answer cannot be used"):
        agent().reply(task(tmp_path), GOOD, printed(tmp_path, RESULT))


# When to come back

NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("said", "after_s"),
    [
        ("Claude AI usage limit reached|1772730000", 9000),
        ("You've hit your 5-hour limit · resets 3:09pm (UTC)", 39 * 60),
        ("You've hit your limit · resets 3am (UTC)", 12.5 * 3600),
        ("Weekly limit reached · resets Mar 9, 2:30pm (UTC)", 4 * 86400),
        ("limit · resets Mar 9 at 10am (America/New_York)", 4 * 86400 - 1800),
        ("Please try again in 20s.", 20),
        ("Rate limit reached. Please try again in 1.5s", 1.5),
        ("try again in 250ms", 0.25),
        ("You've hit your usage limit. Try again in 5 days 3 hours 2 minutes.", 5 * 86400 + 3 * 3600 + 120),
        ("try again in 1 hour, 5 minutes and 3 seconds", 3903),
        ("retry after 30 seconds", 30),
        ("retry-after: 45", 45),
        ('{"retry_after": 12}', 12),
        ("quota resets at 2026-03-05T15:30:00Z", 3600),
        ("resets_at: 1772730000", 9000),
    ],
)
def test_a_stated_reset_is_understood(said: str, after_s: float) -> None:
    assert reset_time(said, now=NOW) == pytest.approx(NOW + after_s, abs=0.01)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "try again in a moment",
        "API Error: 500 in 3 files",
        "resets 25:99pm (UTC)",
        "resets 3am (Nowhere/City)",
        "resets 3am (America)",
        "resets Feb 31, 3am (UTC)",
        "reached|9999999999",
        "at 2026-99-99T99:99:99Z",
        "try again in 9999999 weeks",
        "resets 2020-01-01T00:00:00Z",
        "1" * 100_000,
        "resets " * 50_000,
        "in 1 s " * 50_000 + "x",
    ],
)
def test_what_states_no_reset_is_not_waited_for(said: str) -> None:
    found = reset_time(said, now=NOW)
    assert found is None or found == NOW + 1


@settings(deadline=None)
@given(st.text())
def test_no_text_is_a_crash_and_no_reset_is_far_away(said: str) -> None:
    found = reset_time(f"resets {said}", now=NOW)
    assert found is None or NOW <= found <= NOW + 41 * 86400


NOTED = f"away api.test:443 429 {NOW - 10:.3f} "


@pytest.mark.parametrize(
    ("notes", "after_s"),
    [
        (NOTED + "3600", 3590),
        (NOTED + "3600.5", 3590.5),
        (NOTED + "30\n" + NOTED + "60", 50),
        (NOTED + "60\naway api.test:443 529 1.000 1\nrefused evil.test:80 away api.test:443 429 1.000 1", 50),
        (NOTED + format_datetime(datetime.fromtimestamp(NOW + 7200, UTC), usegmt=True), 7200),
    ],
)
def test_what_a_server_said_to_the_gateway_is_understood(tmp_path: Path, notes: str, after_s: float) -> None:
    (tmp_path / "network").write_text(notes + "\n")
    assert noted_reset(tmp_path / "output", now=NOW, status=429) == pytest.approx(NOW + after_s, abs=1.0)


@pytest.mark.parametrize(
    "said", ["5", "", "soon", "-9", "1e9", "9" * 400, "999999999", "Mon, 99 Foo 2026 99:00:00 GMT"]
)
def test_a_time_that_is_over_or_none_is_not_waited_for(tmp_path: Path, said: str) -> None:
    assert noted_reset(tmp_path / "output", now=NOW) is None
    (tmp_path / "network").write_bytes(NOTED.encode() + said.encode() + b"\n\xff\n")
    assert noted_reset(tmp_path / "output", now=NOW) is None


# Programs


def executable(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def choice(*command: str, **about: Any) -> AgentChoice:
    return AgentChoice(name="mine", use="claude", command=command, **about)


def test_a_program_is_found_as_configured_then_on_the_path(tmp_path: Path) -> None:
    named, other = executable(tmp_path / "a/mine"), executable(tmp_path / "b/claude")
    found = find(choice(str(named), "--flag", "/etc/hosts", reads=("/opt/x",)), CLAUDE, path=str(tmp_path / "b"))
    assert (found.path, found.words) == (str(named), ("--flag", "/etc/hosts"))
    assert {str(named), str(named.parent), "/etc/hosts", "/opt/x"} <= set(found.reads)
    assert find(choice(), CLAUDE, path=str(tmp_path / "b")).path == str(other)
    assert find(choice("claude", "-x"), CLAUDE, path=str(tmp_path / "b")).words == ("-x",)


def test_a_program_is_found_in_an_installed_package_that_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "brings_claude/_bundled/claude")
    (tmp_path / "brings_claude/__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = programs.Wanted("claude", "brings_claude", "_bundled/claude")
    found = find(choice(), wanted, path="/nowhere")
    assert found.path == str(tmp_path / "brings_claude/_bundled/claude")
    assert found.reads == (str(tmp_path / "brings_claude"),)


def test_a_shim_shows_its_package_and_its_interpreter(tmp_path: Path) -> None:
    node = executable(tmp_path / "node/bin/node", "not a script")
    real = executable(tmp_path / "lib/claude-code/cli.js", "#!/usr/bin/env -S node --no-warnings\n")
    shim = tmp_path / "bin/claude"
    shim.parent.mkdir()
    shim.symlink_to("../lib/claude-code/cli.js")
    found = find(choice(), CLAUDE, path=f"{shim.parent}:{node.parent}")
    assert found.path == str(shim)
    assert {str(shim), str(real), str(real.parent), str(node), str(node.parent)} == set(found.reads)


def test_a_program_in_a_home_does_not_show_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    person = pwd.struct_passwd(("me", "x", os.getuid(), 0, "", str(home), ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: person)
    assert str(home) not in find(choice(str(executable(home / "claude"))), CLAUDE).reads
    assert str(tmp_path) not in find(choice(str(executable(tmp_path / "claude"))), CLAUDE).reads
    assert str(home / "bin") in find(choice(str(executable(home / "bin/claude"))), CLAUDE).reads


def test_scripts_that_interpret_each_other_come_to_an_end(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    executable(one, f"#!{two}\n"), executable(two, f"#!{one}\n")
    assert {str(one), str(two)} <= set(find(choice(str(one)), CLAUDE).reads)


@pytest.mark.parametrize("command", [("no-such-claude",), ("/no/such",), ("/etc/passwd",), ("./claude",), ("",)])
def test_a_program_that_cannot_be_run_is_missing_and_says_what_to_type(command: tuple[str, ...]) -> None:
    with pytest.raises(AgentMissing) as caught:
        find(choice(*command), CLAUDE, path="/usr/bin:/bin")
    assert caught.value.hint.startswith(("make agents ", "command -v ", "chmod +x ", "realpath "))


# The private directory


def test_private_directories_are_private_and_laying_them_out_again_touches_nothing(tmp_path: Path) -> None:
    mine = task(tmp_path / "private")
    for _ in range(2):
        lay_out(mine, "claude")
        (tmp_path / "private/claude/kept").touch()
    for name in ("", "home", "tmp", "claude"):
        assert (tmp_path / "private" / name).stat().st_mode & 0o777 == 0o700
    assert contract(mine)["RESOLVENT_ANSWER"] == str(tmp_path / "private/answer.json")


def test_a_file_is_put_in_place_of_a_link_and_never_through_one(tmp_path: Path) -> None:
    mine, elsewhere = task(tmp_path / "private"), tmp_path / "elsewhere"
    lay_out(mine, "codex")
    elsewhere.write_text("untouched")
    for trap in ("config.toml", ".config.toml.new"):
        (tmp_path / "private/codex" / trap).symlink_to(elsewhere)
    put(mine, "codex/config.toml", "model = 1\n")
    assert left(mine, "codex/config.toml") == "model = 1\n"
    assert elsewhere.read_text() == "untouched"
    (tmp_path / "private/moved").symlink_to(tmp_path)
    with pytest.raises(OSError):
        put(mine, "moved/elsewhere", "x")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give something away")
def test_what_is_laid_out_later_belongs_to_whom_the_rest_belongs(tmp_path: Path) -> None:
    mine = task(tmp_path / "private")
    lay_out(mine)
    os.chown(tmp_path / "private", 1234, 1234)
    lay_out(mine, "claude")
    os.chown(tmp_path / "private/claude", 1234, 1234)
    put(mine, "claude/settings.json", "{}")
    for name in ("claude", "claude/settings.json"):
        assert (tmp_path / "private" / name).stat().st_uid == 1234


def test_what_was_left_is_a_small_regular_text_or_nothing(tmp_path: Path) -> None:
    mine = task(tmp_path)
    assert left(mine) is None and left(task(tmp_path / "nowhere")) is None
    (tmp_path / "answer.json").write_text("ü")
    assert left(mine) == "ü"
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * 11)
    (tmp_path / "bytes").write_bytes(b"\xff")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for wrong in ("fifo", "large", "bytes", "link"):
        with pytest.raises((OSError, ValueError)):
            left(mine, wrong, most=10)
