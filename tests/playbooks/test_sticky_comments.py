"""A comment that is kept up to date: there is one of it, and it says the last thing that was said."""

from dataclasses import replace

import pytest

from resolvent import working
from resolvent.domain.outcome import Declined, Outcome
from resolvent.engine.run import Run
from resolvent.engine.world import Backoff, World
from resolvent.testing.faulty_forge import Fault, FaultyForge
from resolvent.testing.stage import Played, Stage

MARKER = "<!-- resolvent-table -->"


class Teller:
    """A playbook that says these texts, one after the other, in one comment of the issue."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = stage
        self.texts: tuple[str, ...] = ()
        self.writes: list[str] = []
        monkeypatch.setattr(working, "PLAYBOOKS", {"resolve": self})

    @property
    def said(self) -> list[str]:
        """What was written, but that a subject is free again."""
        return [verb for verb in self.writes if verb != "release"]

    async def __call__(self, run: Run) -> Outcome:
        for text in self.texts:
            await run.stick(run.inputs.issue.key, name="table", body=text, marker=MARKER)
        return Declined(reason="said")

    async def says(self, run: str, *texts: str, fail: dict[int | tuple[str, int], Fault] | None = None) -> Played:
        self.texts = texts

        def adjust(world: World) -> World:
            forge = FaultyForge(world.forge, fail=fail or {})
            self.writes = forge.writes
            return replace(world, forge=forge, backoff=Backoff(first_s=0.001))

        return await self.stage.go_on(run, scenes=[], adjust=adjust)

    async def standing(self) -> list[str]:
        return [comment.body.partition("\n\n<!-- resolvent:")[0] for comment in await self.stage.comments("issue-1")]


@pytest.fixture
def teller(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Teller:
    return Teller(stage, monkeypatch)


@pytest.mark.spec("X7")
async def test_it_is_posted_once_and_edited_in_place(stage: Stage, teller: Teller) -> None:
    run = await stage.submit()
    played = await teller.says(run, "one", "two", "three")
    assert await teller.standing() == [f"{MARKER}\nthree"]
    assert teller.said == ["comment", "edit_comment", "edit_comment"]
    assert [effect["kind"] for effect in played.document["effects"]] == ["stick"] * 3
    assert len({step["step"] for step in played.document["steps"]}) == 1


async def test_what_it_says_already_is_not_written_again(stage: Stage, teller: Teller) -> None:
    await teller.says(await stage.submit(), "one")
    entry = (await stage.comments("issue-1"))[0]
    fork = await stage.app.fork((await stage.app.runs())[0].id, from_step="stick:table")
    await teller.says(fork.id, f"{MARKER}\none")
    assert teller.said == []
    assert await stage.comments("issue-1") == (entry,)


async def test_a_later_run_goes_on_with_the_comment_of_an_earlier_one(stage: Stage, teller: Teller) -> None:
    first = await stage.submit()
    await teller.says(first, "one")
    fork = await stage.app.fork(first, from_step="stick:table")
    await teller.says(fork.id, "two")
    assert await teller.standing() == [f"{MARKER}\ntwo"]


@pytest.mark.parametrize("fault", ["down", "lost"])
async def test_a_forge_that_breaks_at_either_write_has_one_comment_with_the_last_word(
    stage: Stage, teller: Teller, fault: Fault
) -> None:
    run = await stage.submit()
    await teller.says(run, "one", "two", fail={("comment", 1): fault, ("edit_comment", 1): fault})
    assert await teller.standing() == [f"{MARKER}\ntwo"]
    tries = 2 if fault == "down" else 1
    assert teller.said == ["comment"] * tries + ["edit_comment"] * tries


@pytest.mark.spec("X3")
async def test_neither_a_strangers_marker_nor_a_quoted_one_is_ours(stage: Stage, teller: Teller) -> None:
    run = await stage.submit()
    forge = await stage.hub()
    await forge.comment("issue-1", f"{MARKER}\nmine", author="stranger")
    await forge.comment("issue-1", f"> {MARKER} is the marker")
    await teller.says(run, "one", "two")
    assert await teller.standing() == [f"{MARKER}\nmine", f"> {MARKER} is the marker", f"{MARKER}\ntwo"]
