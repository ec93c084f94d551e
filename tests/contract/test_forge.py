"""What every forge must do. A new adapter joins by a stage of its own; no test here knows which one it runs on."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.forge_stage import NOBODY, LocalStage, Stage, head_change, made, proposed
from tests.contract.github_stage import GitHubStage

from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Store
from resolvent.domain.change import Change
from resolvent.domain.subject import MergeMethod, RequiredCheck
from resolvent.errors import ForgeRefused, HeadMoved, NotFound
from resolvent.ports import Forge


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the certificates of the rehearsal forge are."""
    return tmp_path_factory.mktemp("certified")


@pytest.fixture(params=["local-sqlite", "local-postgres", "github"])
async def stage(request: pytest.FixtureRequest, certified: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    if request.param == "github":
        async with GitHubStage.set(tmp_path, certified=certified) as stage:
            yield stage
        return
    store = await Store.open(request.getfixturevalue(request.param.replace("local-", "") + "_url"))
    try:
        yield await LocalStage.set(store, tmp_path)
    finally:
        await store.close()


@pytest.fixture
def forge(stage: Stage) -> Forge:
    return stage.forge


# --- who we are


async def test_our_login_is_trusted_first_and_the_configured_ones_after_it(forge: Forge) -> None:
    assert await forge.trusted() == (await forge.login(), "maintainer")


async def test_what_people_may_do_is_known_and_nobody_unknown_may_do_anything(stage: Stage) -> None:
    await stage.knows("reader", "read")
    await stage.knows("writer", "write")
    assert await stage.forge.permission(await stage.forge.login()) == "admin"
    assert await stage.forge.permission("reader") == "read"
    assert await stage.forge.permission("writer") == "write"
    for unknown in ("stranger", "", "../reader", "reader/x", "a b", "\0", "🙂"):
        assert await stage.forge.permission(unknown) == "none"


# --- issues


async def test_an_opened_issue_is_read_back_by_number_by_hash_and_by_url(forge: Forge) -> None:
    opened = await forge.open_issue(title="It panics", body="`SELECT 1`\r\n\r\n", labels=("bug", "p1", "bug"))
    for reference in (str(opened.number), f"#{opened.number}", opened.url):
        assert await forge.issue(reference) == opened
    assert (opened.title, opened.body, opened.state) == ("It panics", "`SELECT 1`\r\n\r\n", "open")
    assert (opened.author, set(opened.labels)) == (await forge.login(), {"bug", "p1"})


@pytest.mark.parametrize(
    "reference", ["", "0", "999", "#999", "-1", "1 OR 1=1", "٣", "9" * 40, "nonsense:issues/1", "../1", "1\0", "#"]
)
async def test_a_reference_to_nothing_is_not_found_and_says_what_to_type(forge: Forge, reference: str) -> None:
    await forge.open_issue(title="There is one", body="")
    for read in (forge.issue, forge.pull_request):
        with pytest.raises(NotFound) as caught:
            await read(reference)
        assert caught.value.hint


async def test_issues_and_pull_requests_share_one_sequence_and_are_not_taken_for_each_other(stage: Stage) -> None:
    first = await stage.forge.open_issue(title="First", body="")
    pull = await proposed(stage)
    last = await stage.forge.open_issue(title="Last", body="")
    assert first.number is not None and last.number is not None
    assert first.number < pull.number < last.number
    with pytest.raises(NotFound):
        await stage.forge.issue(str(pull.number))
    with pytest.raises(NotFound):
        await stage.forge.pull_request(str(first.number))


@pytest.mark.parametrize("title", ["", "   ", "two\nlines", "half a\0title"])
async def test_an_issue_without_a_title_on_one_line_is_refused(forge: Forge, title: str) -> None:
    with pytest.raises(ForgeRefused):
        await forge.open_issue(title=title, body="text")
    assert await forge.search_issues("text") == ()


@pytest.mark.parametrize("title", ["t" * 256, "🙂" * 100, "<b>&amp;</b> `x` $(id) \\n", "  edges  "])
async def test_a_title_comes_back_as_it_was_but_for_blanks_around_it(forge: Forge, title: str) -> None:
    opened = await forge.open_issue(title=title, body="")
    assert (await forge.issue(opened.url)).title == title.strip()


async def test_what_is_longer_than_a_forge_takes_is_refused_and_the_longest_is_kept(stage: Stage) -> None:
    forge, longest = stage.forge, "ü" * 65536
    issue = await forge.open_issue(title="Long", body=longest)
    assert (await forge.issue(issue.url)).body == longest
    said = await forge.comment(issue.key, longest)
    assert (await forge.comment_at(said.url)).body == longest
    with pytest.raises(ForgeRefused, match="65536"):
        await forge.open_issue(title="Longer", body=longest + "ü")
    with pytest.raises(ForgeRefused, match="256"):
        await forge.open_issue(title="t" * 257, body="")
    with pytest.raises(ForgeRefused, match="65536"):
        await forge.comment(issue.key, longest + "ü")
    with pytest.raises(ForgeRefused, match="65536"):
        await forge.edit_comment(said, longest + "ü")
    assert len(await forge.issues(state="all")) == len(await forge.comments(issue.key)) == 1


async def test_issues_are_listed_by_state_and_by_all_labels_oldest_first(stage: Stage) -> None:
    forge = stage.forge
    one = await forge.open_issue(title="One", body="", labels=("bug", "p1"))
    two = await forge.open_issue(title="Two", body="", labels=("bug",))
    await proposed(stage)
    three = await forge.open_issue(title="Three", body="", labels=("p1",))
    await stage.closes(two.key)
    assert [issue.number for issue in await forge.issues()] == [one.number, three.number]
    assert [issue.number for issue in await forge.issues(state="closed")] == [two.number]
    assert [issue.number for issue in await forge.issues(state="all")] == [one.number, two.number, three.number]
    assert [issue.number for issue in await forge.issues(state="all", labels=("bug",))] == [one.number, two.number]
    assert await forge.issues(labels=("bug", "p1")) == (one,)
    assert await forge.issues(labels=("bug", "unheard-of")) == ()


async def test_issues_that_changed_since_an_instant_are_those_written_labelled_closed_or_commented(
    stage: Stage,
) -> None:
    forge = stage.forge
    issues = [await forge.open_issue(title=f"Issue {n}", body="") for n in range(5)]
    stage.later(100)
    quiet, commented, labelled, closed, edited = issues
    last = await forge.open_issue(title="Last", body="")
    since = last.created_at
    first = await forge.comment(edited.key, "one")
    assert await forge.issues(state="all", since=since + 50) == ()
    stage.later(100)
    await stage.says("stranger", commented.key, "me too")
    await forge.label(labelled.key, add=("bug",))
    await stage.closes(closed.key)
    await forge.edit_comment(first, "two")
    changed = await forge.issues(state="all", since=since + 50)
    assert [issue.number for issue in changed] == [one.number for one in (commented, labelled, closed, edited)]
    everything = await forge.issues(state="all", since=since)
    assert [issue.number for issue in everything] == [*(issue.number for issue in issues[1:]), last.number]
    assert await forge.issue(quiet.url) == quiet
    assert all(issue.created_at < since <= issue.updated_at for issue in everything[:-1])


@pytest.mark.conforms("S0.25")
async def test_a_search_finds_open_issues_by_every_word_in_title_or_body_oldest_first(stage: Stage) -> None:
    forge = stage.forge
    first = await forge.open_issue(title="Parser overflow", body="deep nesting panics")
    await forge.open_issue(title="Parser is slow", body="no panic at all")
    closed = await forge.open_issue(title="parser OVERFLOW again", body="panics")
    second = await forge.open_issue(title="Numbers", body="PANICS with overflow in the parser")
    third = await forge.open_issue(title="überlauf", body="")
    await stage.closes(closed.key)
    assert await forge.search_issues("overflow parser panics") == (first, second)
    assert await forge.search_issues("overflow parser panics", limit=1) == (first,)
    assert await forge.search_issues("ÜBERLAUF") == (third,)
    assert await forge.search_issues("overflow nowhere") == ()


@pytest.mark.conforms("S0.25")
async def test_a_quoted_search_finds_only_the_exact_text(forge: Forge) -> None:
    marker = "<!-- resolvent:r1:file_issue -->"
    holder = await forge.open_issue(title="Deferred", body=f"text\n{marker}\n100% _sure_ \\ it's")
    await forge.open_issue(title="Other", body="<!-- resolvent:r1 --> file_issue resolvent:r1:file_issue")
    assert await forge.search_issues(f'"{marker}"') == (holder,)
    assert await forge.search_issues('"100% _sure_ \\ it\'s"') == (holder,)
    assert await forge.search_issues('"100% sure"') == ()
    assert await forge.search_issues("%") == (holder,)


async def test_a_search_for_nothing_finds_nothing(forge: Forge) -> None:
    await forge.open_issue(title="Anything", body="")
    for nothing in ("", "  ", '""', '"'):
        assert await forge.search_issues(nothing) == ()


async def test_a_search_finds_no_pull_request(stage: Stage) -> None:
    await proposed(stage, body="unusual")
    assert await stage.forge.search_issues("unusual") == ()


# --- comments

EXACT = [
    '`code` and ``a ` b`` and ```\n$(rm -rf /) `id` \\` "$HOME"\n```',
    "first\r\nsecond\r\n\r\n```sh\r\necho `date`\r\n```\r\n",
    "  leading, trailing  \n\n",
    "<!-- pantheon-verify:abc -->\n✅ 📋 ❌ ü 漢字 \u202e\u200b \x1b[31m \x7f",
    "'; DROP TABLE comments; -- :name %s %(name)s {serial} ?",
    "- " * 20000,
]


@pytest.mark.conforms("S0.27")
@pytest.mark.spec("F2")
@pytest.mark.parametrize("body", EXACT, ids=range(len(EXACT)))
async def test_a_comment_on_an_issue_or_a_pull_request_comes_back_byte_for_byte(stage: Stage, body: str) -> None:
    issue, pull = await stage.forge.open_issue(title="One", body=""), await proposed(stage)
    for target in (issue.key, pull.key):
        written = await stage.forge.comment(target, body)
        assert [one.body.encode() for one in await stage.forge.comments(target)] == [body.encode()]
        assert await stage.forge.comment_at(written.url) == written


async def test_comments_are_read_oldest_first_with_who_wrote_them(stage: Stage) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    await stage.forge.comment(issue.key, "ours")
    await stage.says("stranger", issue.key, "theirs")
    await stage.forge.comment(issue.key, "ours again")
    read = await stage.forge.comments(issue.key)
    us = await stage.forge.login()
    assert [(one.author, one.body) for one in read] == [(us, "ours"), ("stranger", "theirs"), (us, "ours again")]
    assert len({one.id for one in read}) == len({one.url for one in read}) == 3


@pytest.mark.parametrize("body", ["", " \n", "a\0b", "\ud800"])
async def test_a_comment_without_text_or_without_exact_bytes_is_refused(forge: Forge, body: str) -> None:
    issue = await forge.open_issue(title="One", body="")
    with pytest.raises(ForgeRefused):
        await forge.comment(issue.key, body)
    assert await forge.comments(issue.key) == ()


@pytest.mark.parametrize("body", EXACT, ids=range(len(EXACT)))
async def test_an_edited_comment_says_the_new_text_in_its_place(stage: Stage, body: str) -> None:
    issue, pull = await stage.forge.open_issue(title="One", body=""), await proposed(stage)
    for target in (issue.key, pull.key):
        first = await stage.forge.comment(target, "first")
        last = await stage.forge.comment(target, "last")
        edited = await stage.forge.edit_comment(first, body)
        assert edited == first.model_copy(update={"body": body, "updated_at": edited.updated_at})
        assert edited.updated_at >= first.updated_at
        assert await stage.forge.comments(target) == (edited, last)
        assert await stage.forge.comment_at(first.url) == edited


async def test_a_comment_that_is_not_there_or_would_say_nothing_is_not_edited(forge: Forge) -> None:
    issue = await forge.open_issue(title="One", body="")
    there = await forge.comment(issue.key, "text")
    with pytest.raises(NotFound):
        await forge.edit_comment(there.model_copy(update={"id": "999", "url": f"{there.url}9"}), "other")
    for body in ("", " \n", "a\0b", "\ud800"):
        with pytest.raises(ForgeRefused):
            await forge.edit_comment(there, body)
    assert await forge.comments(issue.key) == (there,)


async def test_what_is_not_there_can_neither_be_commented_on_nor_read(stage: Stage) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    written = await stage.forge.comment(issue.key, "text")
    for target in ("issue-999", "pr-999", f"pr-{issue.number}", "file-bug", "", "issue-", "issue-1 "):
        with pytest.raises(NotFound):
            await stage.forge.comments(target)
        with pytest.raises(NotFound):
            await stage.forge.comment(target, "text")
    for url in (written.url + "9", issue.url, "nowhere:1", ""):
        with pytest.raises(NotFound):
            await stage.forge.comment_at(url)


async def test_a_comment_says_what_it_is_on_and_when_it_was_written_and_edited(stage: Stage) -> None:
    issue, pull = await stage.forge.open_issue(title="One", body=""), await proposed(stage)
    for target in (issue.key, pull.key):
        written = await stage.forge.comment(target, "first")
        assert (written.target, written.updated_at) == (target, written.created_at)
        stage.later(100)
        edited = await stage.forge.edit_comment(written, "second")
        assert edited.created_at == written.created_at <= edited.updated_at - 90


async def test_comments_since_an_instant_are_of_every_target_and_edited_ones_come_again(stage: Stage) -> None:
    forge = stage.forge
    issue, pull = await forge.open_issue(title="One", body=""), await proposed(stage)
    old = await forge.comment(issue.key, "old")
    await forge.comment(pull.key, "older than the edit")
    assert [one.body for one in await forge.comments_since(old.created_at)] == ["old", "older than the edit"]
    stage.later(100)
    await stage.says("stranger", pull.key, "new")
    edited = await forge.edit_comment(old, "edited")
    since = await forge.comments_since(edited.updated_at - 50)
    assert {(one.target, one.author, one.body) for one in since} == {
        (pull.key, "stranger", "new"),
        (issue.key, await forge.login(), "edited"),
    }
    assert await forge.comments_since(edited.updated_at + 50) == ()


async def test_a_reaction_to_a_comment_or_a_target_is_there_once_however_often_it_is_asked_for(stage: Stage) -> None:
    forge, us = stage.forge, await stage.forge.login()
    issue, pull = await forge.open_issue(title="One", body=""), await proposed(stage)
    said = await forge.comment(issue.key, "text")
    for to in (said, issue.key, pull.key):
        for _ in range(2):
            await forge.react(to, "eyes")
        await forge.react(to, "-1")
        assert await stage.reactions(to) == ((us, "eyes"), (us, "-1"))
    assert await forge.comments(issue.key) == (said,)
    for nowhere in ("issue-999", "pr-999", said.model_copy(update={"id": "999", "url": f"{said.url}9"})):
        with pytest.raises(NotFound):
            await forge.react(nowhere, "eyes")


# --- labels and states


async def test_labels_are_given_and_taken_whether_they_are_new_there_already_or_absent(stage: Stage) -> None:
    forge = stage.forge
    issue, pull = await forge.open_issue(title="One", body="", labels=("old",)), await proposed(stage)
    for target, read in ((issue.key, forge.issue), (pull.key, forge.pull_request)):
        for _ in range(2):
            await forge.label(target, add=("new: one", "näher 🙂", "a/b?c=d&e%20f"), remove=("old", "never had"))
        labels = (await read(target.partition("-")[2])).labels
        assert set(labels) == {"new: one", "näher 🙂", "a/b?c=d&e%20f"}
        await forge.label(target, remove=("a/b?c=d&e%20f", "näher 🙂"))
        assert (await read(target.partition("-")[2])).labels == ("new: one",)
    with pytest.raises(NotFound):
        await forge.label("issue-999", add=("x",))


@pytest.mark.parametrize("name", ["", " ", "a,b", "x" * 51, "two\nlines", "nul\0"])
async def test_what_cannot_be_a_label_everywhere_is_refused_and_nothing_is_labelled(forge: Forge, name: str) -> None:
    issue = await forge.open_issue(title="One", body="")
    with pytest.raises(ForgeRefused):
        await forge.label(issue.key, add=("good", name))
    with pytest.raises(ForgeRefused):
        await forge.open_issue(title="Two", body="", labels=(name,))
    assert await forge.issues() == (issue,)


async def test_issues_and_pull_requests_are_closed_and_opened_again_and_as_they_are_already(stage: Stage) -> None:
    forge = stage.forge
    issue, pull = await forge.open_issue(title="One", body=""), await proposed(stage)
    for state in ("open", "closed", "closed", "open", "open"):
        for target, read in ((issue.key, forge.issue), (pull.key, forge.pull_request)):
            await forge.set_state(target, state)
            assert (await read(target.partition("-")[2])).state == state
    for target in ("issue-999", "pr-999", f"pr-{issue.number}", ""):
        with pytest.raises(NotFound):
            await forge.set_state(target, "closed")
    with pytest.raises(ForgeRefused):
        await forge.set_state(issue.key, "merged")


async def test_a_pull_request_that_is_merged_or_has_lost_its_head_is_not_opened_again(stage: Stage) -> None:
    forge, merged = stage.forge, await proposed(stage, "one")
    await forge.merge(merged, expect=head_change(merged))
    lost = await proposed(stage, "two", text="three\n")
    await forge.set_state(lost.key, "closed")
    await forge.delete_branch("two", expect=lost.head_commit)
    for pull, state in ((merged, "merged"), (lost, "closed")):
        with pytest.raises(ForgeRefused):
            await forge.set_state(pull.key, "open")
        now = await forge.pull_request(str(pull.number))
        assert (now.state, now.head_commit) == (state, pull.head_commit)


async def test_a_pull_request_is_not_opened_again_beside_another_of_the_same_head(stage: Stage) -> None:
    old = await proposed(stage)
    await stage.closes(old.key)
    new = await stage.forge.open_pull_request(head=old.head, base="main", title="Again", body="")
    with pytest.raises(ForgeRefused):
        await stage.forge.set_state(old.key, "open")
    assert [pull.number for pull in await stage.forge.pull_requests(state="open")] == [new.number]


# --- branches and commits


async def test_the_default_branch_is_where_the_base_is(stage: Stage) -> None:
    assert await stage.forge.head_of(await stage.forge.default_branch()) == stage.base.commit


async def test_a_new_head_is_made_only_where_there_is_none(stage: Stage) -> None:
    assert await stage.forge.head_of("topic") is None
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    other = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(one, source=stage.source, head="topic", expect=None)
    with pytest.raises(HeadMoved):
        await stage.forge.push(other, source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") == one.commit


@pytest.mark.spec("X4")
async def test_a_head_moves_only_from_the_expected_commit(stage: Stage) -> None:
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    two = await made(stage.source, {"a.txt": "2"}, one)
    await stage.forge.push(one, source=stage.source, head="topic", expect=None)
    for wrong in (stage.base.commit, NOBODY):
        with pytest.raises(HeadMoved):
            await stage.forge.push(two, source=stage.source, head="topic", expect=wrong)
    with pytest.raises(HeadMoved):
        await stage.forge.push(two, source=stage.source, head="absent", expect=one.commit)
    assert await stage.forge.head_of("topic") == one.commit
    await stage.forge.push(two, source=stage.source, head="topic", expect=one.commit)
    assert await stage.forge.head_of("topic") == two.commit


async def test_pushing_what_is_there_already_is_fine_whatever_was_expected(stage: Stage) -> None:
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    for expect in (None, None, stage.base.commit, one.commit):
        await stage.forge.push(one, source=stage.source, head="topic", expect=expect)
    assert await stage.forge.head_of("topic") == one.commit


async def test_a_rewritten_head_is_taken_from_who_knows_the_old_one(stage: Stage) -> None:
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    rewritten = await made(stage.source, {"a.txt": "1"}, stage.base, message="better words")
    await stage.forge.push(one, source=stage.source, head="topic", expect=None)
    await stage.forge.push(rewritten, source=stage.source, head="topic", expect=one.commit)
    assert await stage.forge.head_of("topic") == rewritten.commit


async def test_of_several_pushes_at_once_exactly_one_wins(stage: Stage) -> None:
    changes = [await made(stage.source, {"a.txt": str(n)}, stage.base) for n in range(6)]
    tries = [stage.forge.push(one, source=stage.source, head="topic", expect=None) for one in changes]
    ended = await asyncio.gather(*tries, return_exceptions=True)
    won = [change.commit for change, error in zip(changes, ended, strict=True) if error is None]
    assert won == [await stage.forge.head_of("topic")]
    assert all(isinstance(error, HeadMoved) for error in ended if error is not None)


@pytest.mark.parametrize("head", ["", "-d", "a b", "a..b", "a:b", "x.lock", "a\0b", "*", "@{1}", "a\nb", "main/under"])
async def test_what_cannot_be_a_branch_is_refused_and_holds_nothing(stage: Stage, head: str) -> None:
    with pytest.raises(ForgeRefused):
        await stage.forge.push(stage.base, source=stage.source, head=head, expect=None)
    assert await stage.forge.head_of(head) is None


async def test_a_commit_we_do_not_have_is_refused(stage: Stage) -> None:
    with pytest.raises(ForgeRefused):
        await stage.forge.push(Change(commit=NOBODY, tree=NOBODY), source=stage.source, head="topic", expect=None)
    assert await stage.forge.head_of("topic") is None


async def test_a_branch_or_an_older_commit_is_fetched_whole_into_our_repository(stage: Stage, tmp_path: Path) -> None:
    one = await made(stage.source, {"a.txt": "1"}, stage.base)
    two = await made(stage.source, {"a.txt": "2"}, one)
    await stage.forge.push(two, source=stage.source, head="some/topic", expect=None)
    for ref, commit in (("some/topic", two.commit), (one.commit, one.commit)):
        ours = await Git.init_bare(tmp_path / f"{commit}.git")
        for _ in range(2):
            assert await stage.forge.fetch(ours.git_dir, ref) == commit
        assert (await ours("rev-list", commit)).decode().split()[-1] == stage.base.commit
        assert await ours("fsck", "--strict", "--connectivity-only") == b""


@pytest.mark.parametrize("ref", ["absent", NOBODY, "", "-x", "main~0", "HEAD", "main^{}", "a\0b", "--upload-pack=id"])
async def test_fetching_what_the_forge_does_not_have_is_not_found(stage: Stage, ref: str) -> None:
    with pytest.raises(NotFound):
        await stage.forge.fetch(stage.source, ref)


async def test_a_branch_is_removed_only_from_the_expected_commit_and_gone_already_is_fine(stage: Stage) -> None:
    forge, one = stage.forge, await made(stage.source, {"a.txt": "1"}, stage.base)
    await forge.push(one, source=stage.source, head="some/topic", expect=None)
    for wrong in (stage.base.commit, NOBODY):
        with pytest.raises(HeadMoved):
            await forge.delete_branch("some/topic", expect=wrong)
    assert await forge.head_of("some/topic") == one.commit
    for _ in range(2):
        await forge.delete_branch("some/topic", expect=one.commit)
        assert await forge.head_of("some/topic") is None
    with pytest.raises(ForgeRefused):
        await forge.delete_branch("main", expect=stage.base.commit)
    assert await forge.head_of("main") == stage.base.commit


async def test_removing_the_branch_of_an_open_pull_request_closes_it_where_it_was(stage: Stage) -> None:
    pull = await proposed(stage)
    await stage.forge.delete_branch(pull.head, expect=pull.head_commit)
    closed = await stage.forge.pull_request(str(pull.number))
    assert (closed.state, closed.head_commit) == ("closed", pull.head_commit)
    with pytest.raises(ForgeRefused):
        await stage.forge.merge(pull, expect=head_change(pull))


# --- pull requests


@pytest.mark.conforms("S1.3")
async def test_a_pull_request_is_read_by_number_hash_or_url_with_its_number_url_head_and_body(stage: Stage) -> None:
    issue = await stage.forge.open_issue(title="One", body="")
    opened = await proposed(stage, "resolvent/issue-1", body=f"Why.\r\n\r\nFixes #{issue.number}\r\n")
    for reference in (str(opened.number), f"#{opened.number}", opened.url):
        read = await stage.forge.pull_request(reference)
        assert read == opened
    assert read.number > 0 and read.url and read.closes == f"#{issue.number}"
    assert (read.head, read.base, read.state) == ("resolvent/issue-1", "main", "open")
    assert read.head_commit == await stage.forge.head_of("resolvent/issue-1")
    assert (read.title, read.body) == ("Change a", f"Why.\r\n\r\nFixes #{issue.number}\r\n")
    assert read.author == await stage.forge.login()


async def test_the_head_commit_of_a_pull_request_is_where_its_branch_is_now(stage: Stage) -> None:
    pull = await proposed(stage)
    more = await made(stage.source, {"b.txt": "b"}, head_change(pull))
    await stage.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    assert (await stage.forge.pull_request(str(pull.number))).head_commit == more.commit


async def test_a_second_pull_request_for_an_open_head_is_refused_and_the_first_is_named(stage: Stage) -> None:
    pull = await proposed(stage)
    with pytest.raises(ForgeRefused, match=f"#{pull.number}"):
        await stage.forge.open_pull_request(head=pull.head, base="main", title="Again", body="")
    assert await stage.forge.pull_requests(head=pull.head) == (pull,)


async def test_of_several_openings_at_once_exactly_one_is_made(stage: Stage) -> None:
    change = await made(stage.source, {"a.txt": "2"}, stage.base)
    await stage.forge.push(change, source=stage.source, head="topic", expect=None)
    openings = [stage.forge.open_pull_request(head="topic", base="main", title="T", body="") for _ in range(4)]
    ended = await asyncio.gather(*openings, return_exceptions=True)
    assert sum(isinstance(one, ForgeRefused) for one in ended) == 3
    assert len(await stage.forge.pull_requests(head="topic")) == 1


async def test_after_closing_another_may_be_opened_and_all_are_listed_newest_first(stage: Stage) -> None:
    old = await proposed(stage)
    await stage.closes(old.key)
    new = await stage.forge.open_pull_request(head=old.head, base="main", title="Again", body="")
    listed = await stage.forge.pull_requests(head=old.head)
    assert [(one.number, one.state) for one in listed] == [(new.number, "open"), (old.number, "closed")]
    assert await stage.forge.pull_requests(head="another") == ()


async def test_a_closed_pull_request_keeps_the_head_it_was_closed_at(stage: Stage) -> None:
    pull = await proposed(stage)
    await stage.closes(pull.key)
    more = await made(stage.source, {"b.txt": "b"}, head_change(pull))
    await stage.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    assert (await stage.forge.pull_request(str(pull.number))).head_commit == pull.head_commit


async def test_a_pull_request_needs_an_existing_head_and_base_with_something_between_them(stage: Stage) -> None:
    await stage.forge.push(stage.base, source=stage.source, head="same", expect=None)
    for head, base in (("absent", "main"), ("same", "absent"), ("same", "main"), ("main", "main")):
        with pytest.raises(ForgeRefused):
            await stage.forge.open_pull_request(head=head, base=base, title="Nothing", body="")
        assert await stage.forge.pull_requests(head=head) == ()


async def test_pull_requests_are_listed_by_state_and_head_newest_first_and_a_merged_one_is_closed(stage: Stage) -> None:
    forge = stage.forge
    merged, closed, draft = [await proposed(stage, head, text=f"{head}\n") for head in ("one", "two", "three")]
    await forge.merge(merged, expect=head_change(merged))
    await stage.closes(closed.key)
    listed = {state: await forge.pull_requests(state=state) for state in ("open", "closed", "all")}
    assert [pull.number for pull in listed["all"]] == [draft.number, closed.number, merged.number]
    assert listed["open"] == (draft,)
    assert [(pull.number, pull.state) for pull in listed["closed"]] == [
        (closed.number, "closed"),
        (merged.number, "merged"),
    ]
    assert await forge.pull_requests(head="one", state="open") == ()
    assert [pull.number for pull in await forge.pull_requests(head="one")] == [merged.number]
    assert await forge.pull_requests(head="on") == ()


async def test_a_draft_is_made_ready_and_a_draft_again(stage: Stage) -> None:
    forge, change = stage.forge, await made(stage.source, {"a.txt": "two\n"}, stage.base)
    await forge.push(change, source=stage.source, head="topic", expect=None)
    draft = await forge.open_pull_request(head="topic", base="main", title="Draft", body="", draft=True)
    assert draft.draft and (await forge.pull_request(draft.url)).draft
    with pytest.raises(ForgeRefused):
        await forge.merge(draft, expect=change)
    for wanted in (True, False, False, True, False):
        now = await forge.set_draft(draft, wanted)
        assert now.draft is wanted and now == await forge.pull_request(draft.url)
    assert (await forge.merge(draft, expect=change)).state == "merged"


async def test_people_are_asked_for_a_review_once_and_who_cannot_be_asked_is_named(stage: Stage) -> None:
    forge, pull = stage.forge, await proposed(stage)
    await stage.knows("ada", "write")
    await stage.knows("bob", "read")
    await forge.ask_for_review(pull, ())
    for _ in range(2):
        await forge.ask_for_review(pull, ("bob", "ada", "ada"))
    assert await stage.asked(pull) == ("ada", "bob")
    for nobody in ("stranger", await forge.login()):
        with pytest.raises(ForgeRefused, match=nobody):
            await forge.ask_for_review(pull, (nobody,))
    assert await stage.asked(pull) == ("ada", "bob")


async def test_what_to_type_to_have_a_pull_request_is_one_line_whatever_its_branch_is_called(stage: Stage) -> None:
    pull = await proposed(stage, "it's;$(touch${IFS}x)")
    merged = await stage.forge.merge(pull, expect=head_change(pull))
    for line in (stage.forge.fetch_line(pull), stage.forge.fetch_line(merged)):
        assert line and len(line.splitlines()) == 1
        words = shlex.split(line)
        assert words[0] in ("git", "gh") and not any("$(" in word and word != pull.head for word in words)


# --- merging


@pytest.mark.spec("F1")
async def test_merging_puts_exactly_the_expected_head_onto_the_base(stage: Stage, tmp_path: Path) -> None:
    pull = await proposed(stage)
    merged = await stage.forge.merge(pull, expect=head_change(pull))
    assert (merged.state, merged.head_commit) == ("merged", pull.head_commit)
    assert merged == await stage.forge.pull_request(str(pull.number))
    assert await stage.forge.head_of("main") == merged.merge_commit
    await stage.forge.fetch(stage.source, "main")
    parents = await Git(stage.source)("rev-list", "--parents", "--max-count=1", merged.merge_commit)
    assert parents.decode().split() == [merged.merge_commit, stage.base.commit, pull.head_commit]
    assert await Git(stage.source)("show", f"{merged.merge_commit}:a.txt") == b"two\n"


async def test_squashing_puts_one_commit_with_the_merged_files_onto_the_base(stage: Stage) -> None:
    forge, git = stage.forge, Git(stage.source)
    one = await made(stage.source, {"b.txt": "b"}, stage.base)
    two = await made(stage.source, {"b.txt": "bb"}, one)
    await forge.push(two, source=stage.source, head="topic", expect=None)
    pull = await forge.open_pull_request(head="topic", base="main", title="Add b", body="Why.")
    newer = await made(stage.source, {"c.txt": "c"}, stage.base)
    await forge.push(newer, source=stage.source, head="main", expect=stage.base.commit)
    for _ in range(2):
        merged = await forge.merge(pull, expect=two, method="squash")
        assert (merged.state, merged.head_commit) == ("merged", two.commit)
    assert await forge.fetch(stage.source, "main") == merged.merge_commit
    parents = await git("rev-list", "--parents", "--max-count=1", merged.merge_commit)
    assert parents.decode().split() == [merged.merge_commit, newer.commit]
    assert await git("ls-tree", "--name-only", merged.merge_commit) == b"a.txt\nb.txt\nc.txt\n"
    said = (await git("show", "-s", "--format=%s", merged.merge_commit)).decode().strip()
    assert said == f"Add b (#{pull.number})"


async def test_rebasing_puts_every_commit_anew_onto_the_base_with_its_author_and_words(stage: Stage) -> None:
    forge, git = stage.forge, Git(stage.source)
    one = await made(stage.source, {"b.txt": "b\n"}, stage.base, message="first\n\nwith a body")
    two = await made(stage.source, {"b.txt": "bb\n"}, one, message="second ü")
    await forge.push(two, source=stage.source, head="topic", expect=None)
    pull = await forge.open_pull_request(head="topic", base="main", title="Add b", body="")
    newer = await made(stage.source, {"c.txt": "c"}, stage.base)
    await forge.push(newer, source=stage.source, head="main", expect=stage.base.commit)
    for _ in range(2):
        merged = await forge.merge(pull, expect=two, method="rebase")
        assert (merged.state, merged.head_commit) == ("merged", two.commit)
    assert await forge.fetch(stage.source, "main") == merged.merge_commit
    said = await git("log", "--reverse", "--format=%an|%at|%B|%P", f"{newer.commit}..{merged.merge_commit}")
    first, second = [part for part in said.decode().split("tester|1700000000|") if part]
    assert first.startswith("first\n\nwith a body\n") and first.split("|")[-1].strip() == newer.commit
    assert second.startswith("second ü\n")
    assert await git("show", f"{merged.merge_commit}:b.txt") == b"bb\n"
    assert await git("show", f"{merged.merge_commit}:c.txt") == b"c"


@pytest.mark.parametrize("method", ["squash", "rebase"])
async def test_what_does_not_apply_is_neither_squashed_nor_rebased_and_nothing_moves(
    stage: Stage, method: MergeMethod
) -> None:
    one, two = await proposed(stage, "one", text="one way\n"), await proposed(stage, "two", text="another way\n")
    merged = await stage.forge.merge(one, expect=head_change(one))
    with pytest.raises(ForgeRefused):
        await stage.forge.merge(two, expect=head_change(two), method=method)
    with pytest.raises(HeadMoved):
        await stage.forge.merge(two, expect=stage.base, method=method)
    assert await stage.forge.head_of("main") == merged.merge_commit
    assert (await stage.forge.pull_request(str(two.number))).state == "open"


async def test_a_head_that_moved_is_not_merged(stage: Stage) -> None:
    pull = await proposed(stage)
    more = await made(stage.source, {"b.txt": "b"}, head_change(pull))
    await stage.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    for other in (pull.head_commit, stage.base.commit, NOBODY):
        with pytest.raises(HeadMoved):
            await stage.forge.merge(pull, expect=Change(commit=other, tree=other))
    assert (await stage.forge.pull_request(str(pull.number))).state == "open"
    assert await stage.forge.head_of("main") == stage.base.commit


async def test_merging_again_changes_nothing_and_another_head_is_told_apart(stage: Stage) -> None:
    pull = await proposed(stage)
    first = await stage.forge.merge(pull, expect=head_change(pull))
    assert await stage.forge.merge(pull, expect=head_change(pull)) == first
    with pytest.raises(HeadMoved):
        await stage.forge.merge(pull, expect=stage.base)
    assert await stage.forge.head_of("main") == first.merge_commit


async def test_what_is_merged_stays_so_when_its_branch_goes_on(stage: Stage) -> None:
    pull = await proposed(stage)
    merged = await stage.forge.merge(pull, expect=head_change(pull))
    more = await made(stage.source, {"b.txt": "b"}, head_change(pull))
    await stage.forge.push(more, source=stage.source, head=pull.head, expect=pull.head_commit)
    assert await stage.forge.pull_request(str(pull.number)) == merged
    again = await stage.forge.open_pull_request(head=pull.head, base="main", title="More", body="")
    assert (again.head_commit, again.state) == (more.commit, "open")


async def test_two_pull_requests_that_do_not_touch_each_other_both_merge_even_at_once(stage: Stage) -> None:
    one = await proposed(stage, "one")
    change = await made(stage.source, {"b.txt": "b"}, stage.base)
    await stage.forge.push(change, source=stage.source, head="two", expect=None)
    two = await stage.forge.open_pull_request(head="two", base="main", title="Two", body="")
    await asyncio.gather(*(stage.forge.merge(pull, expect=head_change(pull)) for pull in (one, two)))
    main = await stage.forge.fetch(stage.source, "main")
    assert await Git(stage.source)("ls-tree", "--name-only", main) == b"a.txt\nb.txt\n"
    assert await Git(stage.source)("show", f"{main}:a.txt") == b"two\n"


async def test_a_pull_request_in_conflict_is_refused_and_nothing_moves(stage: Stage) -> None:
    one, two = await proposed(stage, "one", text="one way\n"), await proposed(stage, "two", text="another way\n")
    merged = await stage.forge.merge(one, expect=head_change(one))
    with pytest.raises(ForgeRefused, match=r"a\.txt"):
        await stage.forge.merge(two, expect=head_change(two))
    assert await stage.forge.head_of("main") == merged.merge_commit
    assert (await stage.forge.pull_request(str(two.number))).state == "open"


async def test_a_closed_pull_request_is_not_merged(stage: Stage) -> None:
    pull = await proposed(stage)
    await stage.closes(pull.key)
    with pytest.raises(ForgeRefused):
        await stage.forge.merge(pull, expect=head_change(pull))
    assert await stage.forge.head_of("main") == stage.base.commit


async def test_merging_closes_the_issues_its_body_fixes_and_no_others(stage: Stage) -> None:
    issues = [await stage.forge.open_issue(title=f"Issue {n}", body="") for n in range(4)]
    one, two, named, bare = (issue.number for issue in issues)
    body = f"Fixes #{one}, closes: #{two}. See #{named}; fixes {bare}; fixes #99999999999999999999999 and fixes #0"
    pull = await proposed(stage, body=body)
    assert (await stage.forge.issue(str(one))).state == "open"
    await stage.forge.merge(pull, expect=head_change(pull))
    states = [(await stage.forge.issue(str(issue.number))).state for issue in issues]
    assert states == ["closed", "closed", "open", "open"]


# --- checks


async def test_a_forge_that_requires_nothing_names_no_checks(stage: Stage) -> None:
    await stage.reports(stage.base.commit, "optional", "failed")
    assert await stage.forge.required_checks(stage.base.commit) == ()
    assert await stage.forge.await_checks(stage.base.commit, timeout_s=60) == ()


async def test_required_checks_say_what_ci_said_of_exactly_this_commit(stage: Stage) -> None:
    await stage.requires("test", "build", "lint")
    await stage.reports(stage.base.commit, "build", "passed")
    await stage.reports(stage.base.commit, "lint", "failed", log="E501 `x`\r\n")
    read = {check.name: check for check in await stage.forge.required_checks(stage.base.commit)}
    assert {name: check.state for name, check in read.items()} == {
        "build": "passed",
        "lint": "failed",
        "test": "pending",
    }
    assert read["lint"].log == "E501 `x`\r\n"
    assert all(check.commit == stage.base.commit for check in read.values())
    assert {check.state for check in await stage.forge.required_checks(NOBODY)} == {"pending"}


async def test_waiting_ends_when_the_last_check_is_reported(stage: Stage) -> None:
    await stage.requires("build", "test")
    waiting = asyncio.create_task(stage.forge.await_checks(stage.base.commit, timeout_s=60))
    await stage.reports(stage.base.commit, "build", "passed")
    await stage.reports(NOBODY, "test", "passed")
    assert not waiting.done()
    await stage.reports(stage.base.commit, "test", "failed")
    assert [check.state for check in await waiting] == ["passed", "failed"]


async def test_waiting_ends_with_the_time_and_what_is_pending_says_so(stage: Stage) -> None:
    await stage.requires("build")
    for timeout_s in (0, 0.05):
        (check,) = await stage.forge.await_checks(stage.base.commit, timeout_s=timeout_s)
        assert check.state == "pending"


async def test_a_rerun_makes_the_check_pending_until_ci_answers_again(stage: Stage) -> None:
    await stage.requires("build")
    await stage.reports(stage.base.commit, "build", "failed", log="broken")
    (red,) = await stage.forge.required_checks(stage.base.commit)
    await stage.forge.rerun(red)
    (asked,) = await stage.forge.required_checks(stage.base.commit)
    assert (asked.state, asked.log) == ("pending", "")
    ci = asyncio.create_task(stage.answers_reruns("passed"))
    (green,) = await stage.forge.await_checks(stage.base.commit, timeout_s=60)
    assert green.state == "passed"
    await stage.forge.rerun(green)
    (green,) = await stage.forge.await_checks(stage.base.commit, timeout_s=60)
    assert green.state == "passed"
    ci.cancel()


async def test_a_rerun_that_was_answered_is_not_offered_to_the_next_who_plays_ci(stage: Stage) -> None:
    await stage.requires("build", "test")
    for name in ("build", "test"):
        await stage.reports(stage.base.commit, name, "failed")
    for check in await stage.forge.required_checks(stage.base.commit):
        await stage.forge.rerun(check)
    await stage.reports(stage.base.commit, "build", "passed")
    ci = asyncio.create_task(stage.answers_reruns("failed"))
    build, test = await stage.forge.await_checks(stage.base.commit, timeout_s=60)
    assert (build.state, test.state) == ("passed", "failed")
    ci.cancel()


async def test_every_rerun_raises_the_attempt_of_that_check_on_that_commit_only(stage: Stage) -> None:
    await stage.requires("build", "test")
    change = await made(stage.source, {"a.txt": "two\n"}, stage.base)
    for attempt in (1, 2):
        await stage.reports(stage.base.commit, "build", "failed")
        build, test = await stage.forge.required_checks(stage.base.commit)
        assert (build.attempt, test.attempt) == (attempt, 1)
        await stage.forge.rerun(build)
    await stage.reports(stage.base.commit, "build", "passed")
    build, test = await stage.forge.await_checks(stage.base.commit, timeout_s=0)
    assert (build.state, build.attempt, test.attempt) == ("passed", 3, 1)
    assert [check.attempt for check in await stage.forge.required_checks(change.commit)] == [1, 1]


async def test_a_check_nobody_knows_cannot_be_run_again(stage: Stage) -> None:
    with pytest.raises(NotFound):
        await stage.forge.rerun(RequiredCheck(name="unheard-of", commit=stage.base.commit, state="failed"))


# --- claims


async def test_a_claim_is_the_first_holders_until_it_is_given_back(forge: Forge) -> None:
    for _ in range(2):
        assert await forge.claim("issue-1", "host-a.run-1") == "host-a.run-1"
    assert await forge.claim("issue-1", "host-b.run-2") == "host-a.run-1"
    assert await forge.claim("issue-2", "host-b.run-2") == "host-b.run-2"
    await forge.release("issue-1", "host-b.run-2")
    assert await forge.claim("issue-1", "host-b.run-2") == "host-a.run-1"
    for _ in range(2):
        await forge.release("issue-1", "host-a.run-1")
    assert await forge.claim("issue-1", "host-b.run-2") == "host-b.run-2"
    assert await forge.claim("issue-2", "host-a.run-1") == "host-b.run-2"


async def test_of_several_who_claim_at_once_all_hear_of_the_same_holder(forge: Forge) -> None:
    holders = [f"host-{n}" for n in range(6)]
    heard = await asyncio.gather(*(forge.claim("issue-1", holder) for holder in holders))
    assert len(set(heard)) == 1 and heard[0] in holders


@pytest.mark.parametrize("word", ["", " ", "a b", "a/b", "..", ".a", "a..b", "a.lock", "a.", "ü", "a\n", "x" * 101])
async def test_what_cannot_name_a_subject_or_a_holder_everywhere_is_refused(forge: Forge, word: str) -> None:
    for subject, holder in ((word, "host"), ("issue-1", word)):
        with pytest.raises(ForgeRefused):
            await forge.claim(subject, holder)
        with pytest.raises(ForgeRefused):
            await forge.release(subject, holder)
    assert await forge.claim("issue-1", "host") == "host"
