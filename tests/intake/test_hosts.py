"""Several hosts with stores of their own on one forge: one of them works."""

import asyncio

import pytest

from resolvent.errors import UsageError
from resolvent.intake.claims import claims, end_claim

from .scene import Town


@pytest.mark.spec("N3")
async def test_of_two_hosts_that_look_at_once_one_takes_it_up(town: Town) -> None:
    hosts = [await town.host("alpha"), await town.host("beta")]
    for _ in range(3):
        await town.issue("resolvent")
    looked = await asyncio.gather(*(host.look() for host in hosts))
    fates = [{subject: fate for _, subject, fate in one} for one in looked]
    for subject in ("issue-1", "issue-2", "issue-3"):
        assert sorted(one[subject] for one in fates) == ["elsewhere", "taken"]
    assert len([*await hosts[0].runs(), *await hosts[1].runs()]) == 3
    assert await town.reactions(1) == [("issue", "eyes")]


async def test_what_another_host_finished_is_not_taken_up_after_it(town: Town) -> None:
    alpha, beta = await town.host("alpha"), await town.host("beta")
    await town.issue("resolvent")
    await alpha.look()
    assert await beta.look() == [("labelled", "issue-1", "elsewhere")]
    await alpha.work()
    assert await beta.look() == []
    assert await beta.runs() == []


async def test_a_stop_is_heard_by_the_host_that_works_and_by_no_other(town: Town) -> None:
    alpha, beta = await town.host("alpha"), await town.host("beta")
    await town.issue("resolvent")
    await alpha.look()
    await beta.look()
    await town.says("ada", 1, "@resolvent stop")
    assert await beta.look() == [("mentioned", "issue-1", "nothing")]
    assert await alpha.look() == [("mentioned", "issue-1", "stopped")]
    await alpha.work()
    assert await alpha.outcomes() == [("cancelled", "ada asked to stop")]


async def test_a_claim_of_a_host_that_is_gone_is_shown_and_ended_only_by_force(town: Town) -> None:
    alpha, beta = await town.host("alpha"), await town.host("beta")
    await town.issue("resolvent")
    await alpha.look()
    await beta.look()
    (run,) = await alpha.runs()
    (shown,) = await claims(beta.home)
    assert (shown.subject, shown.ours) == ("issue-1", False)
    assert f"run {run.id} on " in shown.said
    assert " since 20" in shown.said
    with pytest.raises(UsageError, match=run.id) as refused:
        await end_claim(beta.home, "issue-1", force=False)
    assert refused.value.hint.startswith("resolvent claim release issue-1 --force")
    assert list(await town.claims()) == ["issue-1"]
    assert await end_claim(beta.home, "issue-1", force=True) == shown
    assert await town.claims() == {}
    await town.says("ada", 1, "@resolvent")
    assert await beta.look() == [("mentioned", "issue-1", "taken")]


async def test_our_own_claim_of_a_run_at_work_is_not_ended_by_mistake(town: Town) -> None:
    alpha = await town.host("alpha")
    await town.issue("resolvent")
    await alpha.look()
    (run,) = await alpha.runs()
    with pytest.raises(UsageError) as refused:
        await end_claim(alpha.home, "issue-1", force=False)
    assert refused.value.hint == f"resolvent cancel {run.id}"


async def test_looking_who_holds_what_leaves_nothing_behind(town: Town) -> None:
    alpha = await town.host("alpha")
    await town.issue()
    assert await end_claim(alpha.home, "issue-1", force=True) is None
    assert (await town.claims(), await claims(alpha.home)) == ({}, ())


async def test_what_another_host_finished_before_the_first_look_is_not_done_again_until_somebody_asks_again(
    town: Town,
) -> None:
    alpha, ada = await town.host("alpha", "policy.status_comments=true"), await town.person("ada")
    await town.issue("resolvent")
    await town.issue()
    await town.says("ada", 2, "@resolvent")
    await alpha.look()
    await alpha.work()
    assert (len(await alpha.runs()), await town.claims()) == (2, {})
    beta = await town.host("beta")
    assert sorted(await beta.look()) == [("labelled", "issue-1", "elsewhere"), ("mentioned", "issue-2", "elsewhere")]
    assert (await beta.runs(), await claims(beta.home)) == ([], ())
    await town.hub.label(ada, 1, remove=["resolvent"])
    assert await beta.look() == []
    await town.hub.label(ada, 1, add=["resolvent"])
    await town.says("ada", 2, "@resolvent resolve")
    assert sorted(await beta.look()) == [("labelled", "issue-1", "taken"), ("mentioned", "issue-2", "taken")]
