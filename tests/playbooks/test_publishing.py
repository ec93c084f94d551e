"""The one pull request of an issue, from its opening to the proof that it landed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from resolvent.domain.change import Change
from resolvent.domain.subject import MergeMethod, PullRequest
from resolvent.engine.world import Backoff, World
from resolvent.errors import ForgeDown, ForgeRefused
from resolvent.ports import Forge
from resolvent.testing.stage import Stage

from .conftest import SetStage
from .looking import files_of, pulls, pushed
from .scenes import ANALYZE, CLEAN, IMPLEMENT, STORY


async def test_a_draft_with_labels_and_reviewers_becomes_ready_when_it_is_proven(set_stage: SetStage) -> None:
    stage = await set_stage("policy.draft=true", 'policy.labels=["machine made"]', 'policy.reviewers=["maintainer"]')
    hub = await stage.hub()
    await hub.comment((await stage.issue()).key, "I am here", author="maintainer")
    seen: list[tuple[bool, tuple[str, ...]]] = []
    run = await stage.submit()
    played = await stage.go_on(run, scenes=STORY, adjust=_watched(seen))
    assert played.outcome == "proven"
    (pull,) = await pulls(stage)
    assert seen[0][0], "it was opened as a draft"
    assert (pull.draft, pull.labels) == (False, ("machine made",))
    assert played.steps.index("declare:ready") > played.steps.index("publish:pull_request")


def _watched(seen: list[tuple[bool, tuple[str, ...]]]) -> Callable[[World], World]:
    """A world whose forge notes what every opened pull request looked like at first."""

    def adjust(world: World) -> World:
        opened = world.forge.open_pull_request

        async def noting(**asked: object) -> PullRequest:
            pull = await opened(**asked)  # type: ignore[arg-type]
            seen.append((pull.draft, pull.labels))
            return pull

        world.forge.open_pull_request = noting  # type: ignore[method-assign, assignment]
        return world

    return adjust


@pytest.mark.spec("F5")
@pytest.mark.parametrize("method", ["merge", "squash", "rebase"])
async def test_a_merge_by_any_method_lands_the_judged_tree_and_may_remove_the_head(
    set_stage: SetStage, method: MergeMethod
) -> None:
    stage = await set_stage("policy.merge=auto", f"policy.merge_method={method}", "policy.delete_branch=true")
    played = await stage.play(STORY)
    assert played.outcome == "merged"
    (pull,) = await pulls(stage)
    hub = await stage.hub()
    main = await hub.head_of("main")
    assert main == pull.merge_commit
    assert (await files_of(stage, main))["value.txt"] == "good"
    assert await hub.head_of(pull.head) is None


class Other:
    """A forge that is the real one in everything but what a test says."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge

    def __getattr__(self, name: str) -> object:
        return getattr(self._forge, name)


class Liar(Other):
    """Says it merged, and did not."""

    async def merge(self, pull: PullRequest, *, expect: Change, method: MergeMethod = "merge") -> PullRequest:
        tip = await self._forge.head_of(pull.base)
        return pull.model_copy(update={"state": "merged", "merge_commit": tip})


@pytest.mark.spec("F5")
async def test_a_merge_the_forge_only_claims_is_not_believed(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto")
    run = await stage.submit()
    played = await stage.go_on(
        run,
        scenes=STORY,
        adjust=lambda world: replace(world, forge=Liar(world.forge)),  # type: ignore[arg-type]
    )
    assert (played.outcome, "does not hold" in played.document["reason"]) == ("escalated", True)


@pytest.mark.spec("F6")
async def test_a_second_pull_request_in_our_name_is_closed_with_a_note(stage: Stage) -> None:
    issue = await stage.issue()
    run = await stage.submit()
    await pushed(stage, {"value.txt": "good\n", "more.txt": "more\n"}, head="another")
    ours = (await stage.hub()).acting_as(await (await stage.app.home.forge()).login())
    number = (await stage.app.run(run)).inputs.issue.number
    stray = await ours.open_pull_request(head="another", base="main", title="Mine", body=f"Fixes #{number}")
    unrelated = await pushed(stage, {"other.txt": "x\n"}, head="third")
    assert unrelated
    other = await ours.open_pull_request(head="third", base="main", title="Else", body=f"Fixes #{issue.number}")
    played = await stage.go_on(run, scenes=[ANALYZE, IMPLEMENT, CLEAN])
    assert played.outcome == "proven"
    mine = played.document["pull_request"]["number"]
    states = {pull.number: pull.state for pull in await pulls(stage)}
    assert states == {mine: "open", stray.number: "closed", other.number: "open"}
    (note,) = await stage.comments(stray.key)
    assert f"#{mine} is the pull request of this issue" in note.body


class Lagging(Other):
    """Opens a pull request, loses the answer, and does not list it for a while."""

    lag = 3

    async def open_pull_request(self, **asked: Any) -> PullRequest:
        opened = await self._forge.open_pull_request(**asked)
        if self.lag == 3:
            self.lag -= 1
            raise ForgeDown("the answer got lost")
        return opened

    async def pull_requests(self, **asked: Any) -> tuple[PullRequest, ...]:
        if 0 < self.lag < 3:
            self.lag -= 1
            return ()
        return await self._forge.pull_requests(**asked)


@pytest.mark.spec("F7")
async def test_a_pull_request_whose_answer_was_lost_is_found_though_it_is_not_listed_yet(stage: Stage) -> None:
    run = await stage.submit()
    played = await stage.go_on(
        run,
        scenes=STORY,
        adjust=lambda world: replace(world, forge=Lagging(world.forge), backoff=Backoff(first_s=0.01)),  # type: ignore[arg-type]
    )
    assert played.outcome == "proven"
    assert len(await pulls(stage)) == 1


class Keeping(Other):
    """Lets nobody remove a branch."""

    async def delete_branch(self, branch: str, *, expect: str) -> None:
        raise ForgeRefused("a rule forbids it")


async def test_a_head_that_cannot_be_removed_is_no_reason_not_to_be_merged(set_stage: SetStage) -> None:
    stage = await set_stage("policy.merge=auto", "policy.delete_branch=true")
    run = await stage.submit()
    played = await stage.go_on(
        run,
        scenes=STORY,
        adjust=lambda world: replace(world, forge=Keeping(world.forge)),  # type: ignore[arg-type]
    )
    assert played.outcome == "merged"
    (merging,) = [step for step in await (await stage.app.home.journal()).steps(run) if step.verb == "merge"]
    assert "its head stays: a rule forbids it" in merging.summary
