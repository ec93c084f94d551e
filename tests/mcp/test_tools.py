"""What each tool takes, refuses and answers."""

import json
import socket
from typing import Any

import pytest

from .place import GATE, HEADERS, Place, Server, ToolFailed, eventually


def refused(server: Server, tool: str, **arguments: Any) -> str:
    """The text of the error that comes back."""
    with pytest.raises(ToolFailed) as failed:
        server.call(tool, **arguments)
    return str(failed.value)


@pytest.mark.spec("M5")
@pytest.mark.parametrize("tool", ["get_branch", "branch_output", "branch_diff", "delete_branch", "wait_branch"])
@pytest.mark.parametrize("branch", ["unknown", "019c84ec-bafa-7b72-b3fc-4969ea7e263b", "../../etc", "a'--\x00\n"])
def test_an_unknown_branch_is_an_error_of_the_tool(shared: Server, tool: str, branch: str) -> None:
    assert refused(shared, tool, branch_id=branch).startswith("404: there is no branch ")


def test_an_error_has_the_shape_that_clients_know(shared: Server) -> None:
    answer = shared.rpc("tools/call", {"name": "get_branch", "arguments": {"branch_id": "unknown"}})
    result = answer["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["error"].startswith("404: ")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.spec("M5")
def test_an_unknown_agent_is_an_error_that_names_the_known_ones(shared: Server) -> None:
    told = refused(shared, "parallel_explore", shared_prompt_sequence=["true"], agent="nobody")
    assert told.startswith("404: there is no agent 'nobody'; there are: ")
    assert all(name in told for name in ("codex", "claude", "review_code", "review_agent_v1.1"))
    assert shared.call("list_branches") == {"branches": []}


def test_an_agent_whose_program_is_missing_is_refused_before_anything_is_recorded(shared: Server) -> None:
    told = refused(shared, "parallel_explore", shared_prompt_sequence=["true"], agent="missing")
    assert "no-such-program" in told
    assert shared.call("list_branches") == {"branches": []}


def test_an_unknown_parent_is_an_error(shared: Server) -> None:
    told = refused(shared, "parallel_explore", shared_prompt_sequence=["true"], parent_branch_id="no-such-thing")
    assert told.startswith("404: there is no branch and no commit 'no-such-thing'")


@pytest.mark.parametrize("count", [0, -1, 65, 1 << 70, "1", 1.5, True, None, [1]])
def test_a_number_of_branches_that_makes_no_sense_is_refused(shared: Server, count: object) -> None:
    told = refused(shared, "parallel_explore", shared_prompt_sequence=["true"], num_branches=count)
    assert told.startswith("400: num_branches: ")


@pytest.mark.parametrize(
    "prompts", ["not a list", [], [""], ["  \n"], ["fine", ""], [1], None, {"0": "x"}, ["x"] * 101, [["nested"]]]
)
def test_prompts_must_be_a_list_of_texts(shared: Server, prompts: object) -> None:
    told = refused(shared, "parallel_explore", shared_prompt_sequence=prompts)
    assert told.startswith("400: shared_prompt_sequence")


@pytest.mark.spec("M5")
def test_arguments_of_the_wrong_type_are_named(shared: Server) -> None:
    assert refused(shared, "get_branch").startswith("400: branch_id: ")
    assert refused(shared, "get_branch", branch_id=7).startswith("400: branch_id: ")
    assert refused(shared, "branch_output", branch_id="x", full_output="yes").startswith("400: full_output: ")
    assert refused(shared, "wait_branch", branch_id="x", timeout_seconds=1e9).startswith("400: timeout_seconds: ")
    assert refused(shared, "list_branches", limit=0).startswith("400: limit: ")
    assert refused(shared, "no_such_tool").startswith("404: there is no tool 'no_such_tool'")


def test_unknown_keys_and_the_words_of_older_clients_are_fine(lively: Server) -> None:
    first = lively.explore("echo one > file")
    snap = lively.end(first)["latest_snap_id"]
    answer = lively.call(
        "parallel_explore",
        shared_prompt_sequence=["cat file"],
        source_snap=snap,
        parallels_num=2,
        max_results=5,
        _meta={"whatever": 1},
    )
    ids = [one["id"] for one in answer["branches"]]
    assert len(ids) == 2
    assert [lively.end(id)["parent"] for id in ids] == [first, first]
    assert [lively.output(id) for id in ids] == ["one\n", "one\n"]


def test_output_is_its_end_by_default_and_whole_on_request(lively: Server) -> None:
    branch = lively.explore("i=0; while [ $i -lt 3000 ]; do echo 'zeile äöü €𝄞'; i=$((i+1)); done; echo LAST")
    lively.end(branch)
    short = lively.call("branch_output", branch_id=branch)
    whole = lively.call("branch_output", branch_id=branch, full_output=True)
    assert len(whole["output"]) == 3000 * 13 + 5 and not whole["truncated"]
    assert short["truncated"] and len(short["output"]) == 20_000
    assert whole["output"].endswith(short["output"]) and short["output"].endswith("LAST\n")


def test_output_that_is_no_text_still_is_an_answer(lively: Server) -> None:
    branch = lively.explore(r"printf '\377\200\000\033[31m'; echo end")
    lively.end(branch)
    assert lively.output(branch) == "\ufffd\ufffd\0\x1b[31mend\n"


def test_files_are_read_as_they_are_in_the_branch(lively: Server) -> None:
    branch = lively.explore(
        "mkdir -p 'a dir'; echo ü > 'a dir/ü \"q\".txt'; printf '\\377' > raw;"
        " ln -s /etc/passwd link; mkfifo pipe; rm value.txt"
    )
    lively.end(branch)
    assert lively.read(branch, 'a dir/ü "q".txt') == "ü\n"
    assert lively.read(branch, './a dir/ü "q".txt') == "ü\n"
    raw = lively.call("branch_read_file", branch_id=branch, file_path="raw")
    assert raw == {"content": "/w==", "encoding": "base64"}
    outside = ("..", "../../etc/passwd", "/etc/passwd", "a dir/../raw")
    for path in ("value.txt", "link", "pipe", "a dir", ".", "x\0", *outside):
        told = refused(lively, "branch_read_file", branch_id=branch, file_path=path)
        assert told == f"404: File or directory not found: {path}"


def test_a_diff_shows_what_git_would_and_names_what_it_ignores(lively: Server) -> None:
    branch = lively.explore("echo good > value.txt; echo new > new.txt; mkdir built; echo x > built/x")
    lively.end(branch)
    shown = lively.call("branch_diff", branch_id=branch)
    assert "-bad\n+good\n" in shown["diff"] and "+++ b/new.txt" in shown["diff"] and "built/x" not in shown["diff"]
    assert shown["paths"] == ["new.txt", "value.txt"]
    assert [path.rstrip("/") for path in shown["ignored"]] in (["built"], ["built/x"])
    untouched = lively.explore("true")
    lively.end(untouched)
    shown = lively.call("branch_diff", branch_id=untouched)
    assert (shown["diff"], shown["paths"], shown["commit"]) == ("", [], shown["base_commit"])


def test_a_diff_of_very_much_is_cut_and_says_so(lively: Server) -> None:
    branch = lively.explore("mkdir many; seq 1100 | while read n; do echo $n > many/$n; done; seq 200000 > long")
    lively.end(branch)
    shown = lively.call("branch_diff", branch_id=branch)
    assert (len(shown["paths"]), shown["paths_truncated"]) == (1000, True)
    assert (len(shown["diff"]), shown["truncated"]) == (1 << 20, True)


@pytest.mark.spec("B2", "M2")
def test_siblings_see_nothing_of_each_other(lively: Server) -> None:
    answer = lively.call("parallel_explore", shared_prompt_sequence=["ls; echo x > $RESOLVENT_RUN"], num_branches=3)
    ids = [one["id"] for one in answer["branches"]]
    for id in ids:
        lively.end(id)
        assert not any(other in lively.output(id) for other in ids)
        assert lively.read(id, id) == "x\n"


def test_a_branch_starts_from_a_commit_if_one_is_named(place: Place, server: Server) -> None:
    old = place.git("rev-parse", "HEAD")
    (place.project / "value.txt").write_text("better\n", encoding="utf-8")
    place.git("commit", "-aqm", "second")
    new = place.git("rev-parse", "HEAD")
    expected = {"": "better\n", "base": "better\n", "main": "better\n", new: "better\n"}
    for parent, text in (expected | {old: "bad\n", old[:12]: "bad\n"}).items():
        branch = server.explore("cat value.txt", parent_branch_id=parent)
        assert server.end(branch)["parent"] is None
        assert server.output(branch) == text, parent


def test_branches_are_listed_newest_first_by_project_and_status(server: Server) -> None:
    one = server.explore("true", project_name="one")
    two = server.explore("exit 1", project_name="two")
    server.end(one), server.end(two)

    def listed(**by: Any) -> list[str]:
        return [branch["id"] for branch in server.call("list_branches", **by)["branches"]]

    assert listed() == [two, one]
    assert listed(project_name="one") == [one]
    assert listed(status="FAILED") == [two]
    assert listed(limit=1) == [two]


@pytest.mark.spec("M2")
def test_a_fork_of_a_running_branch_starts_from_its_last_snapshot(town: Place, lively: Server) -> None:
    parent = lively.explore("echo sealed > sealed", f"echo later > later; {GATE}")
    town.at_gate(parent, prompt=2)
    child = lively.explore("ls", parent_branch_id=parent)
    lively.end(child)
    assert sorted(lively.output(child).split()) == ["resolvent.toml", "sealed", "value.txt"]
    town.open_gate(parent, prompt=2)
    assert lively.end(parent)["status"] == "succeed"


def test_deleting_a_running_branch_stops_its_agent_and_keeps_its_work(town: Place, lively: Server) -> None:
    branch = lively.explore(f"echo precious > new.txt; {GATE}", "echo never")
    child = lively.explore("true", parent_branch_id=branch)
    lively.end(child)
    town.at_gate(branch)
    deleted = lively.call("delete_branch", branch_id=branch)
    assert deleted["deleted"] and deleted["id"] == branch
    kept = town.git("--git-dir", str(town.state / "repo.git"), "show", f"{deleted['rescue_ref']}:new.txt")
    assert kept == "precious"
    told = refused(lively, "get_branch", branch_id=branch)
    assert told.startswith(f"404: branch {branch} was deleted; its work is kept at {deleted['rescue_ref']}")
    listed = [one["id"] for one in lively.call("list_branches")["branches"]]
    assert child in listed and branch not in listed
    assert lively.call("get_branch", branch_id=child)["parent"] == branch
    assert refused(lively, "parallel_explore", shared_prompt_sequence=["true"], parent_branch_id=branch)
    assert not town.private(branch).exists() and not (town.state / "jobs" / f"{branch}.1").exists()


def test_a_branch_that_waits_for_its_turn_can_be_deleted(place: Place) -> None:
    server = place.serve("--set", "limits.agents=1")
    first, second = server.explore(GATE), server.explore("echo never")
    place.at_gate(first)
    eventually(lambda: server.call("get_branch", branch_id=second)["latest_snap_id"])
    assert server.call("get_branch", branch_id=second)["status"] == "queued"
    deleted = server.call("delete_branch", branch_id=second)
    assert deleted == {"id": second, "deleted": True, "rescue_ref": None}
    third = server.explore("echo ok")
    place.open_gate(first)
    assert server.end(third)["status"] == "succeed"


def test_no_more_agents_run_at_once_than_the_settings_allow(place: Place) -> None:
    server = place.serve("--set", "limits.agents=2")
    asked = server.call("parallel_explore", shared_prompt_sequence=[GATE], num_branches=5)["branches"]
    waiting = [one["id"] for one in asked]
    while waiting:
        started = eventually(lambda: [id for id in waiting if (place.private(id) / "tmp" / "gate").is_fifo()])
        statuses = [server.call("get_branch", branch_id=id)["status"] for id in waiting]
        assert statuses.count("running") <= 2
        place.open_gate(started[0])
        server.end(started[0])
        waiting.remove(started[0])


def test_agents_get_the_contract_of_every_agent_and_no_secret(lively: Server) -> None:
    branch = lively.explore("env", "env | grep RESOLVENT_TURN")
    lively.end(branch)
    told = dict(line.split("=", 1) for line in lively.output(branch).splitlines() if "=" in line)
    assert told["RESOLVENT_RUN"] == branch and told["RESOLVENT_STEP"] == "explore" and told["RESOLVENT_SCHEMA"] == "{}"
    assert told["RESOLVENT_TURN"] == "2"
    assert not any("TOKEN" in name for name in told) and "RESOLVENT_HOME" not in told


def test_a_huge_body_is_refused_and_the_server_goes_on(shared: Server) -> None:
    with socket.create_connection(("127.0.0.1", shared.port)) as client:
        head = (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
        )
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")
    assert shared.call("list_branches") == {"branches": []}


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", b'{"jsonrpc":"2.0"}', b"[" * 100_000, b'{"id":' + b"9" * 5000 + b"}", b"\xff"]
)
def test_what_is_no_request_is_refused_and_the_server_goes_on(shared: Server, body: bytes) -> None:
    status, _, _ = shared.post(body)
    assert status == 400
    assert shared.call("list_branches") == {"branches": []}


def test_a_notification_is_taken_and_answered_with_nothing(shared: Server) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    status, _, _ = shared.post(message, headers=HEADERS)
    assert status == 202
