"""The forge that breaks on purpose, for tests of what is written to a forge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.forge_stage import LocalStage, head_change, proposed

from resolvent.adapters.journal.store import Store
from resolvent.errors import ForgeDown, ForgeRefused
from resolvent.ports import Forge
from resolvent.testing.faulty_forge import FaultyForge

READS = {
    *("login", "trusted", "permission", "sync", "fetch", "default_branch", "head_of", "close", "fetch_line"),
    *("issue", "issues", "search_issues", "pull_request", "pull_requests"),
    *("comments", "comments_since", "comment_at", "labelling", "required_checks", "await_checks", "nudge", "holder"),
}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[LocalStage]:
    store = await Store.open(f"sqlite:///{tmp_path}/forge.db")
    try:
        yield await LocalStage.set(store, tmp_path)
    finally:
        await store.close()


async def test_a_forge_that_is_down_three_times_and_heals_wrote_only_once(stage: LocalStage) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    forge: Forge = FaultyForge(stage.forge, fail=dict.fromkeys((1, 2, 3), "down"))
    for _ in range(3):
        with pytest.raises(ForgeDown):
            await forge.comment(issue.key, "text")
        assert await forge.comments(issue.key) == ()
    written = await forge.comment(issue.key, "text")
    assert await forge.comments(issue.key) == (written,)


async def test_a_lost_answer_leaves_the_write_behind(stage: LocalStage) -> None:
    forge = FaultyForge(stage.forge, fail={("open_issue", 2): "lost"})
    await forge.open_issue(title="First", body="seen")
    with pytest.raises(ForgeDown):
        await forge.open_issue(title="Second", body="seen")
    assert [issue.title for issue in await forge.search_issues("seen")] == ["First", "Second"]


async def test_a_refused_token_is_told_from_any_other_refusal(stage: LocalStage) -> None:
    pull = await proposed(stage)
    forge = FaultyForge(stage.forge, fail={("merge", 1): "auth"})
    with pytest.raises(ForgeRefused) as caught:
        await forge.merge(pull, expect=head_change(pull))
    assert caught.value.details["auth"] is True
    assert (await forge.pull_request(str(pull.number))).state == "open"
    assert (await forge.merge(pull, expect=head_change(pull))).state == "merged"


async def test_every_verb_of_the_port_is_passed_on_and_every_one_that_writes_can_fail(stage: LocalStage) -> None:
    """What a verb does is nothing when it fails before it is passed on, so none of them needs to make sense here."""
    verbs = {name for name in vars(Forge) if not name.startswith("_")}
    forge = FaultyForge(stage.forge, fail=dict.fromkeys(range(1, 100), "down"))
    passed = {name for name in verbs if getattr(forge, name) == getattr(stage.forge, name)}
    assert passed == READS
    for name in sorted(verbs - READS):
        with pytest.raises(ForgeDown, match=name):
            await getattr(forge, name)()
    assert forge.writes == sorted(verbs - READS)


async def test_reads_are_neither_counted_nor_broken(stage: LocalStage) -> None:
    forge = FaultyForge(stage.forge, fail={1: "down"})
    assert await forge.head_of(await forge.default_branch()) == stage.base.commit
    assert await forge.required_checks(stage.base.commit) == ()
    assert forge.writes == []
    with pytest.raises(ForgeDown):
        await forge.open_issue(title="One", body="")
    assert forge.writes == ["open_issue"]
