"""Bots answer by their script: at once, late, wrongly, or about a commit that nobody looks at any more."""

from pathlib import Path

import pytest
from tests.forge_server.serving import OWNER, Served
from tests.forge_server.test_git import cloned, committed

from resolvent.errors import ConfigError
from resolvent.forge_server.bots import BotScript
from resolvent.forge_server.holdings import Account, Item
from resolvent.forge_server.hub import Proposal

REVIEWER = """
login = "codex[bot]"

[[answers]]
contains = "@codex review"
kind = "review"
opinion = "request_changes"
body = "Not yet, {author}: #{number} at {commit}."
commit = "asked"
held = true
times = 1
remarks = [{path = "b.txt", line = 1, body = "Why two?"}]

[[answers]]
contains = "@codex review"
kind = "reaction"

[[answers]]
contains = "@codex quota"
body = "You have reached your Codex usage limits for code reviews. {"
"""


@pytest.fixture
async def owner(served: Served) -> Account:
    return (await served.hub.holdings()).accounts[OWNER]


@pytest.fixture
async def work(served: Served) -> Path:
    work = await cloned(served)
    await committed(served, work, "b.txt", "two\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work)).code == 0
    return work


@pytest.fixture
async def pull(served: Served, owner: Account, work: Path) -> Item:
    return await served.hub.open_pull(owner, Proposal(head="topic", base="main", title="Add b"))


async def test_a_bot_answers_who_calls_it(served: Served, owner: Account) -> None:
    await served.serving.bots.add(BotScript.read(REVIEWER))
    issue = await served.hub.open_issue(owner, title="It panics")
    await served.hub.remark(owner, issue.number, "Nobody is called here.")
    await served.hub.remark(owner, issue.number, "Hello @codex quota")
    await served.serving.bots.idle()
    said = [(one.author, one.body) for one in (await served.hub.item(issue.number)).remarks]
    assert said[2:] == [("codex[bot]", "You have reached your Codex usage limits for code reviews. {")]
    assert (await served.hub.holdings()).accounts["codex[bot]"].kind == "Bot"


async def test_a_review_that_is_held_is_stale_when_it_comes(
    served: Served, owner: Account, work: Path, pull: Item
) -> None:
    bots = served.serving.bots
    await bots.add(BotScript.read(REVIEWER))
    await served.hub.remark(owner, pull.number, "@codex review")
    await bots.idle()
    before = await served.hub.item(pull.number)
    assert (before.reviews, bots.waiting) == ((), 1)
    assert [one.content for one in before.remarks[0].reactions] == ["eyes"]
    tip = await committed(served, work, "c.txt", "three\n")
    assert (await served.git("push", "origin", "HEAD:topic", cwd=work)).code == 0
    bots.release()
    await bots.idle()
    after = await served.hub.item(pull.number)
    (review,) = after.reviews
    assert (after.head_commit, review.commit) == (tip, before.head_commit)
    assert review.body == f"Not yet, {OWNER}: #{pull.number} at {before.head_commit}."
    assert (review.opinion, review.remarks[0].body) == ("request_changes", "Why two?")
    await served.hub.remark(owner, pull.number, "@codex review again")
    assert bots.waiting == 0


async def test_a_bot_can_take_its_time_and_answer_with_nonsense(served: Served, owner: Account) -> None:
    bots = served.serving.bots
    script = {"login": "slow[bot]", "answers": [{"on": "issues.opened", "body": '{"verdict": ', "after_events": 2}]}
    await bots.add(BotScript.model_validate(script))
    issue = await served.hub.open_issue(owner, title="It panics")
    await served.hub.remark(owner, issue.number, "One.")
    await bots.idle()
    assert len((await served.hub.item(issue.number)).remarks) == 1
    await served.hub.remark(owner, issue.number, "Two.")
    await bots.idle()
    assert (await served.hub.item(issue.number)).remarks[-1].body == '{"verdict": '


async def test_bots_do_not_answer_themselves(served: Served, owner: Account) -> None:
    script = {"login": "echo[bot]", "answers": [{"contains": "echo", "body": "echo"}]}
    await served.serving.bots.add(BotScript.model_validate(script))
    issue = await served.hub.open_issue(owner, title="It panics")
    await served.hub.remark(owner, issue.number, "echo")
    await served.serving.bots.idle()
    assert len((await served.hub.item(issue.number)).remarks) == 2


async def test_what_the_forge_refuses_a_bot_is_kept_and_disturbs_nobody(served: Served, owner: Account) -> None:
    bots = served.serving.bots
    script = {"login": "lost[bot]", "answers": [{"on": "issues", "kind": "review", "body": "Fine."}]}
    await bots.add(BotScript.model_validate(script))
    await served.hub.open_issue(owner, title="This is no pull request")
    await bots.idle()
    assert len(bots.refused) == 1
    await served.hub.open_issue(owner, title="Nor is this")
    await bots.idle()
    assert len(bots.refused) == 2


@pytest.mark.parametrize("text", ["", "login = 1", 'login = "x"', 'login = "x"\n[[answers]]\nkind = "shout"', "[[["])
def test_a_script_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="script of a bot"):
        BotScript.read(text)
