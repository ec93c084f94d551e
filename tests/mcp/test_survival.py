"""The server is killed, doubled and crowded, and nothing changes for the client."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp import Client
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.errors import NotFound
from resolvent.exploring import Asked

from .place import GATE, Place
from .workshop import ended, exploring, working

ROOT = Path(__file__).parents[2]


@pytest.mark.spec("M3")
def test_a_server_killed_between_explore_and_output_changes_nothing_for_the_client(place: Place) -> None:
    server = place.serve()
    branch = server.explore(f"echo started >> starts; {GATE}; echo good > value.txt; echo DONE", "cat starts value.txt")
    place.at_gate(branch)
    server.kill()
    place.open_gate(branch)
    server = place.serve()
    assert server.end(branch)["status"] == "succeed"
    assert server.output(branch) == "DONE\nstarted\ngood\n"
    child = server.explore("cat value.txt", parent_branch_id=branch)
    assert server.end(child)["status"] == "succeed"
    assert server.output(child) == "good\n"


def test_what_was_acknowledged_before_the_kill_is_done_after_it(place: Place) -> None:
    server = place.serve()
    asked = server.call("parallel_explore", shared_prompt_sequence=["echo here"], num_branches=6)["branches"]
    server.kill()
    server = place.serve()
    for one in asked:
        assert server.end(one["id"])["status"] == "succeed"
        assert server.output(one["id"]) == "here\n"


def test_a_second_server_answers_too_and_takes_over_when_the_first_dies(place: Place) -> None:
    first, second = place.serve(), place.serve()
    branch = second.explore(GATE, "echo taken over")
    place.at_gate(branch)
    assert second.call("get_branch", branch_id=branch)["status"] == "running"
    first.kill()
    place.open_gate(branch)
    assert second.end(branch)["status"] == "succeed"
    assert second.output(branch) == "taken over\n"


def test_an_agent_that_outlived_its_server_is_ended_when_the_next_one_deletes_its_branch(place: Place) -> None:
    server = place.serve()
    branch = server.explore(f"echo precious > new.txt; {GATE}")
    place.at_gate(branch)
    jobs = SupervisedJobs(place.state / "jobs")
    server.process.terminate()
    assert server.process.wait() == 0, "told to stop, it stops"
    assert jobs.running(f"{branch}.1"), "an agent outlives the server"
    server = place.serve()
    assert server.call("delete_branch", branch_id=branch)["rescue_ref"]
    assert not jobs.running(f"{branch}.1")


def test_sixteen_branches_at_once_all_end_correctly(place: Place) -> None:
    server = place.serve("--set", "limits.agents=16")
    prompts = ["echo $RESOLVENT_RUN > mine; echo one", "cat mine; ls"]
    asked = server.call("parallel_explore", shared_prompt_sequence=prompts, num_branches=16)["branches"]
    ids = [one["id"] for one in asked]
    assert len(set(ids)) == 16
    for id in ids:
        assert server.end(id)["status"] == "succeed"
        assert server.output(id).splitlines()[:2] == ["one", id]
        assert server.read(id, "mine") == f"{id}\n"


async def die(place: Place, point: str, prompt: int) -> None:
    """A worker of its own process is killed at that point."""
    command = [sys.executable, "-m", "tests.mcp.dying", str(place.project), point, str(prompt)]
    environ = os.environ | place.environ
    died = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, env=environ, capture_output=True, timeout=60)
    assert died.returncode == -9, died.stderr.decode()


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    ("point", "prompt"),
    [("before", 0), ("made", 0)]
    + [(point, prompt) for prompt in (1, 2) for point in ("announced", "entered", "ended", "sealed", "kept")],
)
async def test_a_worker_killed_at_any_point_is_followed_by_one_that_goes_on(
    place: Place, point: str, prompt: int
) -> None:
    async with exploring(place) as explorer:
        asked = Asked(prompts=("echo x >> one; echo first", "echo x >> two; cat one; echo second"))
        (row,) = await explorer.explore(asked)
        await die(place, point, prompt)
        async with working(explorer):
            found = await ended(explorer, row.id)
        assert (found.status, found.position) == ("succeed", 2)
        assert await explorer.output(row.id) == "first\nx\nsecond\n"
        files = [await explorer.read_file(row.id, name) for name in ("one", "two")]
        assert files == [b"x\n", b"x\n"], "no prompt was asked twice"


@pytest.mark.parametrize("point", ["removed", "recorded"])
async def test_a_deletion_whose_worker_was_killed_is_done_by_the_next_and_names_what_keeps_the_work(
    place: Place, point: str
) -> None:
    async with exploring(place) as explorer:
        async with working(explorer):
            (row,) = await explorer.explore(Asked(prompts=("echo precious > new.txt",)))
            await ended(explorer, row.id)
        await explorer._table.ask_to_delete(row)
        await die(place, point, 0)
        asked_again = asyncio.create_task(explorer.delete(row.id))
        async with working(explorer):
            if point == "removed":
                deleted = await asked_again
            else:
                with pytest.raises(NotFound, match="its work is kept at refs/rescue/"):
                    await asked_again
                deleted = await explorer._table.record(row.id)
            (other,) = await explorer.explore(Asked(prompts=("true",)))
            await ended(explorer, other.id)
        kept = place.git("--git-dir", str(place.state / "repo.git"), "show", f"{deleted.rescue}:new.txt")
        assert (deleted.status, kept) == ("deleted", "precious")
        assert not [*place.state.glob(f"*/{row.id}.*")]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_does_not_notice_that_the_server_was_another_one(place: Place, mode: str) -> None:
    first = await asyncio.to_thread(place.serve)
    async with Client(first.url, mode=mode) as client:
        asked = await client.call_tool("parallel_explore", {"shared_prompt_sequence": [f"{GATE}; echo DONE"]})
        branch = asked.structured_content["branches"][0]["id"]  # type: ignore[index]
        await asyncio.to_thread(place.at_gate, branch)
        where = f"127.0.0.1:{first.port}"
        first.kill()
        await asyncio.to_thread(place.open_gate, branch)
        await asyncio.to_thread(place.serve, "--http", where)
        waited = await client.call_tool("wait_branch", {"branch_id": branch, "timeout_seconds": 60})
        assert waited.structured_content["status"] == "succeed"  # type: ignore[index]
        said = await client.call_tool("branch_output", {"branch_id": branch, "full_output": True})
        assert said.structured_content["output"] == "DONE\n"  # type: ignore[index]
