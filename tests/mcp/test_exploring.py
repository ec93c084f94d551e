"""Explorations inside one process, where the moments between two steps can be held still."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from resolvent.adapters.workspace.explorations import Explorations, new_id, new_names
from resolvent.branching import Branching
from resolvent.domain.exploration import Exploration
from resolvent.domain.job import Branch
from resolvent.domain.record import AgentChoice
from resolvent.errors import ExportRefused, NoSandbox, NotFound, UsageError
from resolvent.exploring import Asked, Explorer
from resolvent.mcp import tools
from resolvent.mcp.arguments import Output
from resolvent.mcp.tools import Tools

from .place import GATE, Place
from .workshop import ended, exploring, working


@pytest.fixture
async def explorer(place: Place) -> AsyncIterator[Explorer]:
    async with exploring(place) as opened:
        yield opened


class Slow:
    """A workspace that seals only when it is told to."""

    def __init__(self, real: object) -> None:
        self._real = real
        self.sealing = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    async def snapshot(self, branch: Branch) -> None:
        self.sealing.set()
        await self.go_on.wait()
        await self._real.snapshot(branch)  # type: ignore[attr-defined]


@pytest.mark.conforms("S0.44", "S1.29")
async def test_output_can_be_read_before_the_branch_has_ended_and_a_fork_waits_for_the_rest(
    explorer: Explorer,
) -> None:
    slow = Slow(explorer._ground.workspace)
    held = Explorer(explorer._home, replace(explorer._ground, workspace=slow))
    async with working(held):
        (row,) = await held.explore(Asked(prompts=("echo left > file; echo VERDICT=VALID",)))
        await slow.sealing.wait()
        found = await Tools(held).get_branch(_of(row))
        assert (found["status"], found["output_ready"], found["ended"]) == ("manifesting", True, False)
        assert await held.output(row.id) == "VERDICT=VALID\n"
        assert (await held.wait(row.id, timeout_s=0.05)).status == "manifesting"
        (child,) = await held.explore(Asked(prompts=("cat file",), parent=row.id))
        assert (await held.wait(child.id, timeout_s=0.05)).snap == ""
        slow.go_on.set()
        assert (await held.wait(child.id, timeout_s=60)).status == "succeed"
        found = await Tools(held).get_branch(_of(row))
        assert (found["status"], found["output_ready"], found["ended"]) == ("succeed", True, True)
        assert await held.output(child.id) == "left\n"


def _of(row: Exploration) -> "object":
    from resolvent.mcp.arguments import OfBranch

    return OfBranch(branch_id=row.id)


class Broken(Slow):
    """A workspace with a bug in it."""

    async def snapshot(self, branch: Branch) -> None:
        raise RuntimeError(f"{branch.id} fell over")


async def test_a_bug_ends_the_exploration_it_hits_and_no_other(explorer: Explorer) -> None:
    faulty = Explorer(explorer._home, replace(explorer._ground, workspace=Broken(explorer._ground.workspace)))
    (one,) = await faulty.explore(Asked(prompts=("echo printed",)))
    async with working(faulty):
        found = await ended(faulty, one.id)
        assert found.status == "failed" and found.status_text.startswith("a bug of resolvent: RuntimeError(")
        assert (await faulty.output(one.id)).startswith("printed\na bug of resolvent: ")
        (two,) = await faulty.explore(Asked(prompts=("exit 1",)))
        assert (await ended(faulty, two.id)).status == "failed"


async def test_nothing_happens_until_somebody_works_and_waiting_says_so(explorer: Explorer) -> None:
    (row,) = await explorer.explore(Asked(prompts=("true",)))
    assert (await explorer.wait(row.id, timeout_s=0.05)).status == "queued"
    with pytest.raises(NotFound, match="File or directory not found"):
        await explorer.read_file(row.id, "value.txt")
    assert (await explorer.diff(row.id)).patch == ""
    assert await explorer.output(row.id) == ""


async def test_who_waits_hears_of_the_end_at_once(explorer: Explorer, place: Place) -> None:
    async with working(explorer):
        (row,) = await explorer.explore(Asked(prompts=(GATE,)))
        waits = [asyncio.create_task(explorer.wait(row.id, timeout_s=60)) for _ in range(5)]
        await asyncio.to_thread(place.open_gate, row.id)
        assert {found.status for found in await asyncio.gather(*waits)} == {"succeed"}


async def test_a_parent_that_a_child_has_yet_to_fork_cannot_be_deleted(explorer: Explorer) -> None:
    async with working(explorer):
        (parent,) = await explorer.explore(Asked(prompts=("echo kept > file",)))
        await explorer.wait(parent.id, timeout_s=60)
    (child,) = await explorer.explore(Asked(prompts=("cat file",), parent=parent.id))
    with pytest.raises(UsageError, match="about to be forked"):
        await explorer.delete(parent.id)
    async with working(explorer):
        await explorer.wait(child.id, timeout_s=60)
        await explorer.delete(parent.id)
        assert await explorer.output(child.id) == "kept\n"


async def test_a_branch_can_be_deleted_at_any_moment(place: Place) -> None:
    async with exploring(place, "limits.agents=2") as explorer, working(explorer):
        rows = await explorer.explore(Asked(prompts=("echo 1 > one", "echo 2 > two"), count=16))

        async def delete_later(row: Exploration, moment: int) -> None:
            seen = await explorer._table.changed(since=-1)
            for _ in range(moment):
                seen = await explorer._table.changed(since=seen, timeout_s=1)
            await explorer.delete(row.id)

        async with asyncio.timeout(60):
            await asyncio.gather(*(delete_later(row, 3 * at) for at, row in enumerate(rows[:-1])))
        assert (await ended(explorer, rows[-1].id)).status == "succeed"
        assert await explorer.branches() == (await explorer.branch(rows[-1].id),)
        assert [kept.branch.id for kept in await explorer._ground.workspace.kept()] == [rows[-1].id]


async def test_a_child_of_a_branch_that_never_began_fails_with_the_reason(explorer: Explorer) -> None:
    (parent,) = await explorer.explore(Asked(prompts=("true",)))
    (child,) = await explorer.explore(Asked(prompts=("true",), parent=parent.id))
    await explorer._table.keep(parent, status="failed", status_text="no room")
    with pytest.raises(UsageError, match="never began: no room"):
        await explorer.explore(Asked(prompts=("true",), parent=parent.id))
    async with working(explorer):
        found = await explorer.wait(child.id, timeout_s=60)
    assert found.status == "failed" and "never began: no room" in found.status_text


async def test_a_grandchild_of_a_queued_branch_begins_after_its_parents(explorer: Explorer) -> None:
    (one,) = await explorer.explore(Asked(prompts=("echo 1 > one",)))
    (two,) = await explorer.explore(Asked(prompts=("echo 2 > two",), parent=one.id))
    (three,) = await explorer.explore(Asked(prompts=("true",), parent=two.id))
    async with working(explorer):
        ended = [await explorer.wait(row.id, timeout_s=60) for row in (three, two, one)]
    assert {row.status for row in ended} == {"succeed"}


async def test_without_walls_nothing_is_explored_unless_that_was_said(place: Place) -> None:
    async with exploring(place, "sandbox.rung=plain") as careful:
        with pytest.raises(UsageError, match="without walls"):
            await careful.explore(Asked(prompts=("true",)))


@pytest.mark.parametrize("rung", ["overlay", "memory", "copy", "landlock", "plain"])
async def test_every_rung_explores_and_forks(place: Place, rung: str) -> None:
    try:
        async with exploring(place, f"sandbox.rung={rung}", unsafe=rung == "plain") as explorer, working(explorer):
            (parent,) = await explorer.explore(Asked(prompts=("echo 1 > 'ö\n\"'; mkdir built; echo 2 > built/x", "ls")))
            (child,) = await explorer.explore(
                Asked(prompts=("cat built/x",), parent=(await ended(explorer, parent.id)).id)
            )
            assert (await ended(explorer, child.id)).status == "succeed"
            assert await explorer.output(child.id) == "2\n"
            assert await explorer.read_file(child.id, 'ö\n"') == b"1\n"
            assert (await explorer.diff(child.id)).paths == ('ö\n"',)
            await explorer.delete(child.id)
            assert (await explorer.delete(parent.id)).rescue
    except NoSandbox as missing:
        pytest.skip(missing.message)


@pytest.mark.parametrize("rung", ["plain", "copy"])
async def test_where_branches_are_copies_a_fork_waits_for_the_prompt_that_runs(place: Place, rung: str) -> None:
    async with exploring(place, f"sandbox.rung={rung}", unsafe=rung == "plain") as explorer, working(explorer):
        (parent,) = await explorer.explore(Asked(prompts=(f"echo 1 > one; {GATE}", "echo 2 > two")))
        await asyncio.to_thread(place.at_gate, parent.id)
        (child,) = await explorer.explore(Asked(prompts=("cat one",), parent=parent.id))
        assert (await explorer.wait(child.id, timeout_s=0.05)).snap == ""
        await asyncio.to_thread(place.open_gate, parent.id)
        assert (await ended(explorer, child.id)).status == "succeed"
        assert (await ended(explorer, parent.id)).status == "succeed"
        assert await explorer.output(child.id) == "1\n"
        (doomed,) = await explorer.explore(Asked(prompts=(GATE,), parent=parent.id))
        await asyncio.to_thread(place.at_gate, doomed.id)
        (waiting,) = await explorer.explore(Asked(prompts=("true",), parent=doomed.id))
        assert (await explorer.delete(waiting.id)).rescue == ""


async def test_a_branch_whose_files_somebody_removed_is_not_forked_from_the_bare_commit(explorer: Explorer) -> None:
    async with working(explorer):
        (parent,) = await explorer.explore(Asked(prompts=("echo kept > file",)))
        await ended(explorer, parent.id)
        ref = await explorer._ground.workspace.delete(parent.id)
        with pytest.raises(NotFound, match="were removed"):
            await explorer.explore(Asked(prompts=("cat file",), parent=parent.id))
        (child,) = await explorer.explore(Asked(prompts=("cat file",), parent=ref or ""))
        await ended(explorer, child.id)
        assert await explorer.output(child.id) == "kept\n"
        assert (await explorer.delete(parent.id)).rescue == ref


async def test_work_that_cannot_be_kept_is_not_deleted(explorer: Explorer) -> None:
    async with working(explorer):
        (row,) = await explorer.explore(Asked(prompts=("mkdir -p sub/.git; echo x > sub/.git/config",)))
        await ended(explorer, row.id)
        with pytest.raises(ExportRefused, match="could not be deleted") as refused:
            await explorer.delete(row.id)
        assert refused.value.hint == f"resolvent branch rm --discard {row.id}"
        found = await explorer.branch(row.id)
        assert (found.status, found.status_text, found.error) == ("succeed", "answered", "")
        answer, failed = await Tools(explorer).call("delete_branch", {"branch_id": row.id})
        assert failed and answer["error"].startswith("409: ")


async def test_housekeeping_spares_what_somebody_works_in_or_is_about_to_fork(place: Place) -> None:
    async with exploring(place, "sandbox.keep=0") as explorer:
        async with working(explorer):
            parent, other = await explorer.explore(Asked(prompts=("echo 1 > one",), count=2))
            await ended(explorer, parent.id), await ended(explorer, other.id)
        (child,) = await explorer.explore(Asked(prompts=("cat one",), parent=parent.id))
        cleaned = await Branching(explorer._home).clean()
        assert cleaned["removed"] == [other.id] and list(cleaned["rescued"]) == [other.id]
        async with working(explorer):
            await ended(explorer, child.id)
        assert await explorer.output(child.id) == "1\n"


def row(**more: object) -> Exploration:
    fields = {
        "project": "p",
        "parent": None,
        "commit": "c",
        "agent": "a",
        "choice": AgentChoice(name="a", use="command"),
        "prompts": ("x",),
        "created_at": 1.0,
        "updated_at": 1.0,
    }
    return Exploration(**new_names() | fields | more)  # type: ignore[arg-type]


async def test_the_table_keeps_all_of_a_call_or_nothing(tmp_path: Path) -> None:
    table = await Explorations.open(tmp_path)
    first = row(prompts=("ü\0\ud800", "two"))
    await table.add([first])
    assert await table.find(first.id) == first == await table.find(first.name)
    with pytest.raises(NotFound):
        await table.add([row(), row(parent="019c84ec-bafa-7b72-b3fc-4969ea7e263b")])
    assert await table.list() == (first,)
    await table.close()


async def test_progress_of_a_deleted_branch_is_not_recorded(tmp_path: Path) -> None:
    table = await Explorations.open(tmp_path)
    one = row()
    await table.add([one])
    await table.ask_to_delete(one)
    for progress in (table.note, table.keep):
        with pytest.raises(NotFound):
            await progress(one, status="running")
    with pytest.raises(NotFound, match="was deleted"):
        await table.ask_to_delete(one)
    await table.set_deleted(one, rescue="refs/rescue/x")
    assert await table.due() == ()
    with pytest.raises(NotFound, match="kept at refs/rescue/x"):
        await table.find(one.id)
    await table.close()


def test_ids_sort_by_time_and_never_meet() -> None:
    before = time.time_ns() // 1_000_000
    ids = [new_id() for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    assert len(set(ids)) == 1000
    moments = [int(id.replace("-", "")[:12], 16) for id in ids]
    assert before <= moments[0] and moments == sorted(moments) and moments[-1] <= after


async def test_two_commands_in_one_branch_never_share_a_job(place: Place) -> None:
    async with exploring(place) as explorer:
        one, other = Branching(explorer._home, unsafe=True), Branching(explorer._home, unsafe=True)
        branch = await one.new(name="shared")
        first = await one.job(branch, ("true",), wall_s=60)
        second = await other.job(branch, ("false",), wall_s=60)
        assert first.id != second.id
        assert (await one.run(branch, first)).exit == 0
        assert (await other.run(branch, await other.job(branch, ("false",), wall_s=60))).exit == 1


async def test_even_all_of_the_output_is_no_more_than_an_answer_can_hold(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "MAX_CHARACTERS", 10)
    async with exploring(place) as explorer, working(explorer):
        (row,) = await explorer.explore(Asked(prompts=("echo 123456789 123456789",)))
        await ended(explorer, row.id)
        said = await Tools(explorer).branch_output(Output(branch_id=row.id, full_output=True))
        assert said == {"output": "123456789\n", "truncated": True}
