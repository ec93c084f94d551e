"""The server is killed, doubled and crowded, and nothing changes for the client."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.exploring import Asked

from .place import GATE, Place
from .workshop import ended, exploring, working

ROOT = Path(__file__).parents[2]


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


def test_a_deletion_that_the_server_did_not_live_to_do_is_done_by_the_next(place: Place) -> None:
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
        command = [sys.executable, "-m", "tests.mcp.dying", str(place.project), point, str(prompt)]
        environ = os.environ | place.environ
        died = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, env=environ, capture_output=True, timeout=60)
        assert died.returncode == -9, died.stderr.decode()
        async with working(explorer):
            found = await ended(explorer, row.id)
        assert (found.status, found.position) == ("succeed", 2)
        assert await explorer.output(row.id) == "first\nx\nsecond\n"
        files = [await explorer.read_file(row.id, name) for name in ("one", "two")]
        assert files == [b"x\n", b"x\n"], "no prompt was asked twice"
