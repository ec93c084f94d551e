"""Clients as they are: one that knows nothing but HTTP and JSON, and the official one over each transport."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters

from mcp import Client

from .place import GATE, HEADERS, RESOLVENT, Place, Server

UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@pytest.mark.conforms("S0.42", "S0.45", "S2.22")
@pytest.mark.spec("M1")
def test_a_client_without_a_handshake_explores_polls_reads_and_forks(lively: Server) -> None:
    answer = lively.call(
        "parallel_explore",
        project_name="a-project",
        parent_branch_id="base",
        shared_prompt_sequence=["echo good > value.txt; mkdir built; echo artefact > built/x; echo VERDICT=VALID"],
        num_branches=1,
        agent="codex",
    )
    assert len(answer["branches"]) == 1
    branch = answer["branches"][0]["branch_id"]
    done = lively.poll(branch)
    assert done["status"] in ("manifesting", "succeed") and done["id"] == branch
    assert lively.output(branch) == "VERDICT=VALID\n"
    child = lively.explore("cat value.txt built/x; echo NO_P0_P1", parent_branch_id=branch, agent="claude_code")
    assert lively.end(child)["parent"] == branch
    assert lively.output(child) == "good\nartefact\nNO_P0_P1\n"
    assert lively.read(child, "value.txt") == "good\n"
    assert lively.read(child, "/workspace/built/x") == "artefact\n"


def test_names_have_the_forms_that_clients_know(lively: Server) -> None:
    (one,) = lively.call("parallel_explore", shared_prompt_sequence=["true"])["branches"]
    assert re.fullmatch(UUID7, one["id"]) and one["branch_id"] == one["id"]
    assert re.fullmatch(r"explore-[0-9a-f]{8}-[0-9a-f]{8}", one["name"])
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{5}", one["display_name"])
    found = lively.end(one["id"])
    assert re.fullmatch(UUID7, found["latest_snap_id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["updated_at"])
    wanted = {"id", "status", "status_text", "updated_at", "latest_snap_id", "latest_snap", "manifest", "parent"}
    assert wanted | {"agent", "project"} <= found.keys() and "error" not in found
    assert {"manifest_status", "snap_status", "output"} <= found["latest_snap"].keys()
    assert "summary" in found["manifest"]


@pytest.mark.conforms("S0.41")
def test_every_status_is_a_lower_case_word_that_clients_sort_correctly(town: Place, lively: Server) -> None:
    branch = lively.explore(GATE, "true")
    failed = lively.explore("exit 1")
    town.at_gate(branch)
    seen = [lively.call("get_branch", branch_id=branch)["status"]]
    assert seen == ["running"]
    town.open_gate(branch)
    seen += [lively.end(branch)["status"], lively.end(failed)["status"]]
    assert seen == ["running", "succeed", "failed"]
    assert all(word == word.strip().lower() for word in seen)


def test_a_failed_branch_says_why_and_its_output_ends_with_what_went_wrong(lively: Server) -> None:
    branch = lively.explore("whatever", agent="broken")
    found = lively.end(branch)
    assert found["status"] == "failed"
    assert found["status_text"] == "agent broken: ended with exit 3"
    assert "cannot go on" in found["failure"]
    assert lively.output(branch) == "half done\ncannot go on\nagent broken: ended with exit 3\n"


@pytest.mark.spec("M2")
def test_prompts_are_answered_in_order_in_the_same_branch(lively: Server) -> None:
    branch = lively.explore("echo one >> log; echo first", "echo two >> log; printf second", "cat log; echo third")
    assert lively.end(branch)["prompts_answered"] == 3
    assert lively.output(branch) == "first\nsecond\none\ntwo\nthird\n"


def test_the_prompt_after_a_failed_one_is_never_asked(lively: Server) -> None:
    branch = lively.explore("echo one; exit 1", "echo two")
    found = lively.end(branch)
    assert (found["status"], found["prompts_answered"]) == ("failed", 0)
    assert "two" not in lively.output(branch)


@pytest.mark.spec("M1")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/sse", "/mcp/sse/"])
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json, text/event-stream", "application/json"),
        ("*/*", "application/json"),
        (None, "application/json"),
        ("application/json", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream;q=0.9", "text/event-stream"),
    ],
)
def test_the_accept_header_chooses_json_or_events(shared: Server, path: str, accept: str | None, kind: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "Accept"}
    headers |= {"Accept": accept} if accept else {}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "list_branches"}}
    status, told, text = shared.post(message, path=path, headers=headers)
    assert (status, told["content-type"].partition(";")[0]) == (200, kind)
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] if "event" in kind else [text]
    answer = json.loads(lines[-1])
    assert answer["id"] == 7 and answer["result"]["structuredContent"]["branches"] == []


@pytest.mark.spec("M1")
@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("session", [None, "", "anything at all"])
def test_any_session_id_and_any_version_will_do(shared: Server, version: str | None, session: str | None) -> None:
    given = {"Content-Type": "application/json", "Mcp-Session-Id": session, "MCP-Protocol-Version": version}
    headers = {name: value for name, value in given.items() if value is not None}
    answer = shared.rpc("tools/call", {"name": "list_branches", "arguments": {}}, headers=headers)
    assert answer["result"]["structuredContent"] == {"branches": []}


async def _whole_story(client: Client) -> None:
    async def call(tool: str, **arguments: Any) -> Any:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
        return result.structured_content

    async def explore(**arguments: Any) -> str:
        (made,) = (await call("parallel_explore", **arguments))["branches"]
        return str(made["id"])

    listed = await client.list_tools()
    assert {tool.name for tool in listed.tools} == {
        "parallel_explore", "get_branch", "branch_output", "branch_read_file",
        "list_branches", "branch_diff", "delete_branch", "wait_branch",
    }  # fmt: skip
    first = await explore(shared_prompt_sequence=["echo good > value.txt; echo done"], agent="codex")
    done = await call("wait_branch", branch_id=first, timeout_seconds=60)
    assert (done["status"], done["ended"]) == ("succeed", True)
    assert (await call("branch_output", branch_id=first, full_output=True))["output"] == "done\n"
    second = await explore(shared_prompt_sequence=["cat value.txt"], parent_branch_id=first)
    await call("wait_branch", branch_id=second, timeout_seconds=60)
    assert (await call("branch_output", branch_id=second))["output"] == "good\n"
    assert (await call("branch_read_file", branch_id=second, file_path="value.txt"))["content"] == "good\n"
    missing = await client.call_tool("get_branch", {"branch_id": "unknown"})
    assert missing.is_error and missing.structured_content["error"].startswith("404: ")  # type: ignore[index]


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse"])
async def test_the_official_client_does_the_same_over_http(lively: Server, mode: str, path: str) -> None:
    async with Client(lively.url.removesuffix("/mcp") + path, mode=mode) as client:
        await _whole_story(client)


@pytest.mark.spec("M1")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_does_the_same_over_standard_input(place: Place, mode: str) -> None:
    process = StdioServerParameters(
        command=sys.executable, args=["-m", "resolvent", "mcp", *place.manner], env=place.environ, cwd=place.project
    )
    async with Client(process, mode=mode) as client:
        await _whole_story(client)


@pytest.mark.conforms("S0.43")
def test_an_unfinished_branch_can_be_asked_again_and_waiting_ends_when_it_does(town: Place, lively: Server) -> None:
    branch = lively.explore(f"echo begun; {GATE}; echo ended")
    town.at_gate(branch)
    waited = lively.call("wait_branch", branch_id=branch, timeout_seconds=0.05)
    assert (waited["status"], waited["output_ready"], waited["ended"]) == ("running", False, False)
    assert lively.call("branch_output", branch_id=branch)["output"] == "begun\n"
    town.open_gate(branch)
    waited = lively.call("wait_branch", branch_id=branch, timeout_seconds=60)
    assert waited["output_ready"] and lively.output(branch) == "begun\nended\n"


def test_what_is_no_message_is_answered_over_standard_output(town: Place) -> None:
    command = [*RESOLVENT, "mcp", *town.manner]
    with subprocess.Popen(
        command, cwd=town.project, env=town.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write('garbage\n\n{"neither": "nor"}\n{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n')
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(3)]
        server.stdin.close()
    assert [(answer["id"], answer.get("error", {}).get("code")) for answer in answers] == [
        (None, -32700),
        (None, -32600),
        (7, None),
    ]
