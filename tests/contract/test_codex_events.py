"""What codex prints, read as hostile input; and schemas in the words of strict mode."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from resolvent.adapters.agents.codex import CodexAgent
from resolvent.adapters.agents.codex_events import CodexListener, began, read_turn
from resolvent.adapters.agents.codex_refusals import delay_of, status_of, wait_of
from resolvent.adapters.agents.strict_schema import strict
from resolvent.domain.job import JobExit, Session, Task, Usage
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import Moment, Noticed, Retried, Said, Spent, Thought, ToolAnswered, ToolCalled
from resolvent.domain.verdicts import Analysis, Fix, Implementation, Review, Verification
from resolvent.errors import AgentBusy, AgentFailed, AgentTimedOut, KeyRefused

GOOD = JobExit(ending="exited", exit=0, started_at=1000.0, ended_at=2000.0, seconds=1000.0)
BAD = GOOD.model_copy(update={"exit": 1})
TASK = Task(
    run="r", step="s", attempt=1, turn=1, prompt="", json_schema="", directory="/nonexistent", inside="/nonexistent"
)
STARTED = {"type": "thread.started", "thread_id": "01a1e215-1784-71c3-8e6f-ae232d9499bd"}
ENDED = {"type": "turn.completed", "usage": {"input_tokens": 3, "cached_input_tokens": 1, "output_tokens": 2}}
WAIT = (
    "1970-01-01T00:33:00.000000Z  WARN session_loop{{a=b}}: codex_core::responses_retry: stream disconnected - "
    "retrying sampling request (1/2 in {})... turn_id=1"
)
HOSTILE = [
    b"",
    b"\n",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe{}",
    b'{"type": []}',
    b'{"type": {"type": "error"}}',
    b'{"type": "error", "message": {"a": 1}}',
    b'{"type": "error", "message": "Reconnecting... 99999999999999999999/1"}',
    b'{"type": "turn.completed"}',
    b'{"type": "turn.completed", "usage": {"input_tokens": -1, "output_tokens": 1e999, "cached_input_tokens": "x"}}',
    b'{"type": "turn.completed", "usage": {"input_tokens": ' + b"9" * 400 + b"}}",
    b'{"type": "turn.failed", "error": "x"}',
    b'{"type": "thread.started", "thread_id": "../../etc"}',
    b'{"type": "thread.started", "thread_id": 7}',
    b'{"type": "item.completed"}',
    b'{"type": "item.completed", "item": []}',
    b'{"type": "item.completed", "item": {"type": "agent_message", "text": 5}}',
    b'{"type": "item.completed", "item": {"type": "agent_message", "text": "\\ud800"}}',
    b'{"type": "item.completed", "item": {"type": "command_execution", "id": [], "aggregated_output": {}}}',
    b'{"type": "item.completed", "item": {"type": "file_change", "id": "1", "changes": [1, {"path": 2}, {}]}}',
    b'{"type": "item.completed", "item": {"type": "mcp_tool_call", "id": "1", "result": {"content": 3}, "error": 4}}',
    b'{"type": "item.completed", "item": {"type": "collab_tool_call", "id": null, "agents_states": [[]]}}',
    b'{"type": "item.updated", "item": {"type": "todo_list", "items": [{"text": {}}, 4, {"completed": "x"}]}}',
    b'{"type": "item.completed", "item": ' * 5000 + b"}" * 5000,
    b'{"type": "resolvent.began", "spent": {"usd": "much"}}',
    b'{"type": "resolvent.began", "spent": 4}',
    WAIT.format("9" * 400 + "s").encode(),
    WAIT.format("1.2.3s").encode(),
]


def heard(*events: dict[str, Any] | str | bytes) -> list[Moment]:
    listener = CodexListener(None)
    return [moment for line in lines(*events).splitlines() for moment in listener.hear(line)]


def lines(*events: dict[str, Any] | str | bytes) -> bytes:
    words = [json.dumps(one) if isinstance(one, dict) else one for one in events]
    return b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in words)


def item(when: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"item.{when}", "item": {"id": "item_0", "type": kind, **more}}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def agent() -> CodexAgent:
    return CodexAgent(AgentChoice(name="codex", use="codex"), environment={})


def refused(output: Path, exit: JobExit, *events: dict[str, Any] | str) -> Exception:
    output.write_bytes(lines(*events))
    with pytest.raises(Exception, match="agent codex") as caught:
        agent().reply(TASK, exit, output)
    return caught.value


@pytest.mark.parametrize("line", HOSTILE)
def test_no_line_breaks_the_listener_or_passes_for_an_end(line: bytes, output: Path) -> None:
    moments = heard(line)
    for moment in moments:
        moment.model_dump_json().encode()
    output.write_bytes(line + b"\n")
    turn = read_turn(output)
    turn.message.encode()
    assert turn.thread == ""
    if b"turn.completed" not in line:
        with pytest.raises(AgentFailed, match=r"without the end of its turn|the turn failed"):
            agent().reply(TASK, GOOD, output)


@pytest.mark.spec("A10")
def test_an_end_counts_only_with_a_good_exit_and_a_good_exit_only_with_an_end(output: Path) -> None:
    output.write_bytes(lines(STARTED, ENDED))
    assert agent().reply(TASK, GOOD, output).usage.input_tokens == 3
    assert isinstance(refused(output, BAD, STARTED, ENDED), AgentFailed)
    assert isinstance(refused(output, GOOD, STARTED), AgentFailed)
    failed = {"type": "turn.failed", "error": {"message": "no"}}
    assert isinstance(refused(output, GOOD, STARTED, ENDED, failed), AgentFailed)
    lost = GOOD.model_copy(update={"message": "output was lost: No space left on device"})
    assert "output was lost" in str(refused(output, lost, STARTED, ENDED))


def test_output_that_is_not_there_is_a_failure(output: Path) -> None:
    with pytest.raises(AgentFailed, match="exit 1"):
        agent().reply(TASK, BAD, output)
    assert agent().session(TASK, output) is None


def test_a_call_is_told_once_with_its_beginning_and_once_with_its_end() -> None:
    command = {"command": "ls", "aggregated_output": "a\n", "exit_code": 0, "status": "completed"}
    whole = [ToolCalled(call="item_0", tool="exec_command", input="ls"), ToolAnswered(call="item_0", output="a\n")]
    assert (
        heard(item("started", "command_execution", **command), item("completed", "command_execution", **command))
        == whole
    )
    assert heard(item("completed", "command_execution", **command)) == whole


def test_tools_of_servers_and_plans_are_told() -> None:
    result = {"content": [{"type": "text", "text": "5"}]}
    called = item("completed", "mcp_tool_call", server="demo", tool="add", arguments={"a": 2}, result=result)
    assert heard(called) == [
        ToolCalled(call="item_0", tool="demo.add", input='{"a": 2}'),
        ToolAnswered(call="item_0", output="5"),
    ]
    wrong = item("completed", "mcp_tool_call", server="demo", tool="add", error={"message": "no"}, status="failed")
    assert heard(wrong)[1] == ToolAnswered(call="item_0", output="no", failed=True)
    plan = [{"text": "look", "completed": True}, {"text": "write", "completed": False}]
    assert heard(item("updated", "todo_list", items=plan)) == [Thought(text="☑ look\n☐ write")]


def test_an_error_is_a_retry_or_the_end_and_is_told_once() -> None:
    retry = {"type": "error", "message": "Reconnecting... 1/2 (unexpected status 503 Service Unavailable: no)"}
    final = {"type": "error", "message": "unexpected status 503 Service Unavailable: no"}
    failed = {"type": "turn.failed", "error": {"message": final["message"]}}
    assert heard(WAIT.format("250ms"), retry, final, failed) == [
        Retried(attempt=1, status=503, reason="unexpected status 503 Service Unavailable: no", delay_s=0.25),
        Noticed(text=final["message"]),
    ]


def test_only_the_first_line_tells_what_was_spent_before() -> None:
    before = began(Session(id=STARTED["thread_id"], spent=Usage(usd=1, input_tokens=2, output_tokens=1)))
    assert heard(before, STARTED, ENDED) == [Spent(usage=Usage(input_tokens=1, cached_tokens=1, output_tokens=1))]
    assert heard(STARTED, before, ENDED) == [Spent(usage=Usage(input_tokens=3, cached_tokens=1, output_tokens=2))]


def test_a_command_left_behind_does_not_take_back_the_last_word(output: Path) -> None:
    left = item("completed", "command_execution", command="sleep", aggregated_output="", exit_code=1, status="failed")
    output.write_bytes(lines(STARTED, item("completed", "agent_message", text="done"), left, ENDED))
    assert agent().reply(TASK, GOOD, output).text == "done"
    assert heard(item("completed", "agent_message", text="")) == []
    assert heard(item("completed", "agent_message", text="x")) == [Said(text="x")]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized: Incorrect API key provided, url: https://x", KeyRefused),
        ("unexpected status 403 Forbidden: no, url: https://x", KeyRefused),
        ("exceeded retry limit, last status: 429 Too Many Requests", AgentBusy),
        ("We’re currently experiencing high demand, which may cause temporary errors.", AgentBusy),
        ("Selected model is at capacity. Please try a different model.", AgentBusy),
        ("Quota exceeded. Check your plan and billing details.", AgentBusy),
        ("You’ve hit your usage limit. Try again later.", AgentBusy),
        ("stream disconnected before completion: idle timeout waiting for SSE", AgentBusy),
        ("Connection failed: error sending request", AgentBusy),
        ("request timed out", AgentBusy),
        (
            "Codex ran out of room in the model's context window. Start a new thread or clear earlier history",
            AgentFailed,
        ),
        ('{"error": {"message": "too much", "code": "context_length_exceeded"}}', AgentFailed),
        ("unexpected status 404 Not Found: The model does not exist, url: https://x", AgentFailed),
        ("turn aborted. Something went wrong?", AgentFailed),
        ("Invalid prompt: no", AgentFailed),
    ],
)
def test_what_a_server_says_decides_who_must_act(output: Path, message: str, kind: type[Exception]) -> None:
    failed = {"type": "turn.failed", "error": {"message": message}}
    assert type(refused(output, BAD, STARTED, failed)) is kind


@pytest.mark.parametrize(
    ("waits", "until"),
    [("3600s", 1980.0 + 3600), ("10.5s", 2000 + 10.5), ("211ms", None), ("9" * 18 + "s", None)],
    ids=["still waiting", "over", "its own pause", "absurd"],
)
def test_the_log_tells_when_to_come_back(output: Path, waits: str, until: float | None) -> None:
    failed = {"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}}
    error = refused(output, BAD, STARTED, WAIT.format(waits), failed)
    assert isinstance(error, AgentBusy) and error.until == until


def test_words_of_the_server_tell_when_to_come_back(output: Path) -> None:
    said = "rate limit exceeded: Rate limit reached in organization org-1. Please try again in 1m30s. Visit https://x"
    error = refused(output, BAD, {"type": "turn.failed", "error": {"message": said}})
    assert isinstance(error, AgentBusy) and error.until == 2090
    assert [delay_of(f"try again in {words}. Visit") for words in ("20ms", "3.2s", "1h0m1.5s", "vain")] == [
        0.02,
        3.2,
        3601.5,
        None,
    ]


@pytest.mark.parametrize("ending", ["idle", "wall", "cancelled"])
def test_who_is_stopped_while_it_waits_for_its_model_is_busy_and_not_slow(output: Path, ending: str) -> None:
    stopped = BAD.model_copy(update={"ending": ending})
    retry = {
        "type": "error",
        "message": "Reconnecting... 1/2 (exceeded retry limit, last status: 429 Too Many Requests)",
    }
    error = refused(output, stopped, STARTED, WAIT.format("3600s"), retry)
    assert isinstance(error, AgentBusy) and error.until == 1980.0 + 3600
    unauthorized = {"type": "error", "message": "Reconnecting... 1/2 (unexpected status 401 Unauthorized: no, url: x)"}
    assert isinstance(refused(output, stopped, STARTED, unauthorized), KeyRefused)
    went_on = item("completed", "reasoning", text="hm")
    slow = AgentFailed if ending == "cancelled" else AgentTimedOut
    assert isinstance(refused(output, stopped, STARTED, WAIT.format("3600s"), retry, went_on), slow)


def test_numbers_in_words_are_found_only_where_they_mean_something() -> None:
    assert status_of("unexpected status 500 x") == 500
    assert status_of("port 4290 at 429") == 0
    assert wait_of("retrying sampling request (1/2 in 3s)") is None
    assert wait_of(WAIT.format("3s")) == (1980.0, 3.0)


# Strict schemas


class Node(BaseModel):
    name: str
    inner: "Node | None" = None


class Open(BaseModel):
    named: dict[str, int]


class Pair(BaseModel):
    both: tuple[int, str]
    any_of: int | str = 3


@pytest.mark.parametrize("model", [Analysis, Fix, Implementation, Review, Verification, Node, Pair])
def test_every_object_is_closed_and_every_property_required(model: type[BaseModel]) -> None:
    schema = strict(model.model_json_schema())
    assert schema is not None and schema["type"] == "object"

    def look(one: Any) -> None:
        if isinstance(one, list):
            for inner in one:
                look(inner)
        if isinstance(one, dict):
            assert set(one) <= {"type", "enum", "description", "properties", "required", "items", "anyOf",
                                "additionalProperties", "$ref", "$defs"}  # fmt: skip
            if "$ref" in one:
                assert set(one) == {"$ref"} and one["$ref"].removeprefix("#/$defs/") in schema.get("$defs", {})
            if one.get("type") == "object":
                assert one["additionalProperties"] is False and one["required"] == list(one["properties"])
            for name, inner in one.items():
                for each in inner.values() if name in ("properties", "$defs") else [inner]:
                    look(each)

    look(schema)


def test_what_was_optional_says_what_nothing_looks_like() -> None:
    schema = strict(Analysis.model_json_schema())
    assert schema is not None
    assert schema["properties"]["reason"]["description"] == 'Give "" when there is nothing to say.'
    assert {"type": "null"} in schema["properties"]["design"]["anyOf"]
    assert "description" not in schema["properties"]["verdict"]


@pytest.mark.parametrize(
    "schema",
    [
        Open.model_json_schema(),
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "object", "properties": {}, "additionalProperties": False}, {"type": "null"}]},
        {"type": "object", "properties": {"any": {}}},
        {"type": "object"},
        {"$ref": "#/$defs/Gone"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        None,
        True,
        [],
    ],
)
def test_a_schema_that_strict_mode_cannot_say_has_none(schema: object) -> None:
    assert strict(schema) is None


def test_a_schema_without_end_has_none() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(900):
        deep = {"type": "array", "items": deep}
    assert strict({"type": "object", "properties": {"deep": deep}}) is None
