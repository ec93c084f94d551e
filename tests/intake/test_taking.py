"""What is taken up by itself, from whom, and that it is taken up once."""

import pytest

from resolvent.domain.subject import Permission
from resolvent.testing.stage import git

from .scene import DECLINED, FILES, Town


@pytest.mark.spec("N1")
async def test_an_issue_with_the_label_is_taken_up_acknowledged_and_claimed(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent", "bug")
    assert await host.look() == [("labelled", "issue-1", "taken")]
    (row,) = await host.runs()
    assert (row.subject, row.playbook, row.state) == ("issue-1", "resolve", "queued")
    assert await town.reactions(1) == [("issue", "eyes")]
    assert row.id in (await town.claims())["issue-1"]


async def test_the_claim_is_given_back_when_the_run_has_ended(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    await host.work()
    assert [outcome for outcome, _ in await host.outcomes()] == ["declined"]
    assert await town.claims() == {}


async def test_what_still_has_the_label_is_no_news_after_a_run_a_comment_or_a_restart(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    await host.work()
    await town.says("eve", 1, "me too")
    assert await host.look() == []
    again = await town.host()
    assert await again.look() == []
    assert len(await host.runs()) == 1


async def test_a_label_that_was_away_for_one_look_asks_anew(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    await town.issue("resolvent")
    await host.look()
    await host.work()
    await town.hub.label(ada, 1, remove=["resolvent"])
    assert await host.look() == []
    await town.hub.label(ada, 1, add=["resolvent"])
    assert await host.look() == [("labelled", "issue-1", "taken")]
    assert len(await host.runs()) == 2


async def test_an_issue_without_the_label_or_closed_is_left_alone(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    await town.issue("bug")
    await town.issue("resolvent")
    await town.hub.set_state(ada, 2, "closed")
    assert await host.look() == []
    assert (await host.runs(), await town.claims()) == ([], {})


@pytest.mark.parametrize(("said", "playbook"), [("@resolvent resolve", "resolve"), ("@resolvent design", "design")])
async def test_a_mention_by_who_may_write_starts_what_it_says(town: Town, said: str, playbook: str) -> None:
    host = await town.host()
    await town.issue(by="eve")
    await town.says("ada", 1, said)
    assert await host.look() == [("mentioned", "issue-1", "taken")]
    assert [row.playbook for row in await host.runs()] == [playbook]
    assert await town.reactions(1) == [(said, "eyes")]


@pytest.mark.spec("N1")
@pytest.mark.parametrize("by", ["eve", "tri", "stranger"])
async def test_a_mention_by_who_may_not_gets_a_reaction_and_no_word(town: Town, by: str) -> None:
    host = await town.host()
    await town.issue()
    await town.hub.account("stranger", permission="none")
    await town.hub.forge.comment("issue-1", "@resolvent resolve", author=by)
    assert await host.look() == [("mentioned", "issue-1", "refused")]
    assert await host.look() == []
    assert await town.reactions(1) == [("@resolvent resolve", "confused")]
    assert (len(await town.comments("issue-1")), await host.runs(), await town.claims()) == (1, [], {})


@pytest.mark.parametrize(("allow", "by"), [("triage", "tri"), ("read", "eve"), ("none", "stranger")])
async def test_the_configuration_says_how_much_one_must_be_allowed(town: Town, allow: Permission, by: str) -> None:
    host = await town.host("alpha", f'intake.allow="{allow}"')
    await town.issue()
    await town.hub.forge.comment("issue-1", "@resolvent", author=by)
    assert await host.look() == [("mentioned", "issue-1", "taken")]


async def test_bots_and_we_ourselves_are_heard_only_where_they_are_listed(town: Town) -> None:
    host = await town.host()
    await town.issue()
    for by in ("helper[bot]", "resolvent"):
        await town.says(by, 1, "@resolvent resolve")
    assert [fate for *_, fate in await host.look()] == ["nothing", "nothing"]
    assert (await host.runs(), await town.reactions(1)) == ([], [])
    other = await town.host("beta", 'intake.logins=["Helper[bot]"]')
    assert [fate for *_, fate in await other.look()] == ["taken", "nothing"]


async def test_a_mention_in_the_text_of_a_new_issue_counts_and_in_ours_does_not(town: Town) -> None:
    host = await town.host()
    await host.look()
    await town.issue(body="It panics. @resolvent resolve")
    await town.issue(body="@resolvent resolve\n\n<!-- resolvent:r1:file_issue -->")
    assert await host.look() == [("mentioned", "issue-1", "taken")]
    assert await town.reactions(1) == [("issue", "eyes")]


@pytest.mark.spec("N1")
async def test_other_words_are_answered_once_with_what_is_understood(town: Town) -> None:
    host = await town.host()
    await town.issue()
    await town.says("ada", 1, "@resolvent resolve --merge now")
    await town.says("eve", 1, "@resolvent what do you think?")
    assert [fate for *_, fate in await host.look()] == ["answered", "refused"]
    assert await host.look() == []
    said = [one.body for one in await town.comments("issue-1") if one.author == "resolvent"]
    assert len(said) == 1
    assert "`@resolvent resolve`, `@resolvent design` and `@resolvent stop`" in said[0]
    assert await host.runs() == []


async def test_a_second_asking_while_at_work_starts_nothing_and_says_nothing(town: Town) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await host.look()
    await town.says("ada", 1, "@resolvent")
    assert await host.look() == [("mentioned", "issue-1", "repeated")]
    assert len(await host.runs()) == 1
    assert len(await town.comments("issue-1")) == 1
    assert len(await town.claims()) == 1


async def test_what_cannot_be_done_there_is_refused_with_a_reaction(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    await town.issue()
    await town.says("ada", 1, "@resolvent")
    await town.hub.set_state(ada, 1, "closed")
    assert await host.look() == [("mentioned", "issue-1", "refused")]
    assert ("@resolvent", "confused") in await town.reactions(1)
    assert (await host.runs(), await town.claims()) == ([], {})


async def test_the_default_branch_configures_intake_and_the_checkout_does_not(town: Town) -> None:
    committed = '[intake]\nlabel = "please"\n[checks]\ntest = "true"\n'
    host = await town.host(files={**FILES, "resolvent.toml": committed})
    place = host.stage.project / "resolvent.toml"
    place.write_text('[intake]\nlabel = "other"\n[checks]\ntest = "false"\n', encoding="utf-8")
    await town.issue("other")
    await town.issue("please")
    assert await host.look() == [("labelled", "issue-2", "taken")]
    assert [row.inputs.checks["test"] for row in await host.runs()] == ["true"]


async def test_a_broken_configuration_on_the_default_branch_begins_nothing_and_still_lets_runs_be_stopped(
    town: Town,
) -> None:
    host = await town.host()
    await town.issue("resolvent")
    await town.issue()
    await host.look()
    (host.stage.project / "resolvent.toml").write_text("[intake]\nlable = 1\n", encoding="utf-8")
    await git(host.stage.project, "add", "-A")
    await git(host.stage.project, "commit", "-q", "-m", "break it")
    await town.says("ada", 1, "@resolvent stop")
    await town.says("ada", 2, "@resolvent")
    await town.hub.label(await town.person("ada"), 2, add=["resolvent"])
    assert await host.look() == [("mentioned", "issue-1", "stopped")]
    assert [type(error).__name__ for error in host.troubles] == ["ConfigError"]
    assert "intake.lable" in host.troubles[0].message
    assert len(await host.runs()) == 1
    (host.stage.project / "resolvent.toml").unlink()
    await git(host.stage.project, "add", "-A")
    await git(host.stage.project, "commit", "-q", "-m", "mend it")
    mended = await town.host()
    assert sorted(fate for *_, fate in await mended.look()) == ["repeated", "taken"]


async def test_a_configuration_that_cannot_be_used_is_told_and_the_asking_waits_for_it(town: Town) -> None:
    host = await town.host("alpha", 'agents.writer="nobody"', 'agents.nobody.command=["/no/such/program"]')
    await town.issue("resolvent")
    assert await host.look() == []
    assert [type(error).__name__ for error in host.troubles] == ["AgentMissing"]
    mended = await town.host("alpha")
    assert await mended.look() == [("labelled", "issue-1", "taken")]
    await mended.work(DECLINED)
    assert await town.claims() == {}


async def test_a_label_counts_from_who_may_label(town: Town) -> None:
    host, ada = await town.host(), await town.person("ada")
    # As a template does it: in the name of whoever opens the issue.
    await town.hub.forge.create_issue("The value is bad", "It should be good.", labels=("resolvent",), author="eve")
    assert await host.look() == [("labelled", "issue-1", "refused")]
    assert (await host.look(), await host.runs(), await town.claims()) == ([], [], {})
    assert await town.reactions(1) == [("issue", "confused")]
    await town.hub.label(ada, 1, remove=["resolvent"])
    await host.look()
    await town.hub.label(await town.person("tri"), 1, add=["resolvent"])
    assert await host.look() == [("labelled", "issue-1", "taken")]


@pytest.mark.parametrize(("by", "more"), [("helper[bot]", ()), ("eve", ('intake.allow="read"',))])
async def test_a_label_counts_from_a_bot_and_from_who_may_ask(town: Town, by: str, more: tuple[str, ...]) -> None:
    host = await town.host("alpha", *more)
    await town.hub.forge.create_issue("The value is bad", "It should be good.", labels=("resolvent",), author=by)
    assert await host.look() == [("labelled", "issue-1", "taken")]
