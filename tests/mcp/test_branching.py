"""Branches by their names, beside the explorations of the same store."""

import asyncio

import pytest

from resolvent.branching import Branching
from resolvent.errors import UsageError
from resolvent.exploring import Asked

from .place import GATE, Place
from .workshop import exploring, working


async def test_where_branches_are_copies_one_that_cannot_be_kept_keeps_no_other_from_going(place: Place) -> None:
    async with exploring(place, "sandbox.rung=plain", "sandbox.keep=0", unsafe=True) as explorer:
        branches = Branching(explorer._home, unsafe=True)
        for name, script in (("odd", "mkdir -p sub/.git; echo x > sub/.git/config"), ("good", "echo 1 > one")):
            branch = await branches.new(name=name)
            await branches.run(branch, await branches.job(branch, ("sh", "-c", script), wall_s=60))
        cleaned = await branches.clean()
        assert list(cleaned["refused"]) == ["odd"]
        assert (cleaned["removed"], list(cleaned["rescued"])) == (["good"], ["good"])
        assert [kept.branch.id for kept in await explorer._ground.workspace.kept()] == ["odd"]


@pytest.mark.parametrize("left", [b"", b'{"argv": ["ec', b"[]", b"{}", None])
async def test_a_command_of_which_half_a_record_was_written_does_not_spoil_its_branch(
    place: Place, left: bytes | None
) -> None:
    async with exploring(place) as explorer:
        branches = Branching(explorer._home, unsafe=True)
        branch = await branches.new(name="told")
        first = await branches.job(branch, ("echo", "one"), wall_s=60)
        await branches.run(branch, first)
        record = place.state / "jobs" / first.id / "job.json"
        if left is None:
            record.unlink()
        else:
            record.write_bytes(left)
        second = await branches.job(branch, ("echo", "two"), wall_s=60)
        await branches.run(branch, second)
        heard = branches.commands(await branches.find("told"))
        told = [command.argv for command in heard]
        assert told[-1] == ("echo", "two") and told[:-1] in ([()], [])
        assert heard[-1].output.read_bytes() == b"two\n"


async def test_who_may_not_stop_an_agent_is_told_who_may(place: Place) -> None:
    async with exploring(place) as explorer, working(explorer):
        (row,) = await explorer.explore(Asked(prompts=(GATE,)))
        await asyncio.to_thread(place.at_gate, row.id)
        branches = Branching(explorer._home)
        with pytest.raises(UsageError, match="is part of an exploration") as refused:
            await branches.stop(await branches.find(row.id))
        assert refused.value.hint.startswith("delete_branch")
