"""What the GitHub adapter knows without asking: addresses, names, limits, refusals, and what it keeps."""

import sqlite3
import stat
from email.utils import formatdate
from pathlib import Path

import httpx
import pytest

from resolvent.adapters.forges.github import GitHubForge, GitHubPlace
from resolvent.adapters.forges.github_budget import Budget
from resolvent.adapters.forges.github_cache import Answers
from resolvent.adapters.forges.github_ci import Run, Word, counted
from resolvent.adapters.forges.github_place import is_branch, path, plain_log
from resolvent.adapters.forges.github_refusals import Answer, from_graphql, refusal
from resolvent.domain.subject import PullRequest
from resolvent.errors import ForgeDown, ForgeRefused, NotFound, ResolventError, UsageError

SECRET = "ghp_secret"
HERE = GitHubPlace(repo="acme/widgets", token=SECRET)


# --- addresses


@pytest.mark.parametrize(
    ("api", "asked", "seen"),
    [
        ("", "https://api.github.com", "https://github.com"),
        ("https://api.github.com/", "https://api.github.com", "https://github.com"),
        ("https://ghe.example:8443/api/v3", "https://ghe.example:8443/api/v3", "https://ghe.example:8443"),
        ("https://api.acme.ghe.com", "https://api.acme.ghe.com", "https://acme.ghe.com"),
    ],
)
def test_the_pages_and_the_git_of_a_server_follow_from_its_api(api: str, asked: str, seen: str) -> None:
    where = GitHubPlace(repo="acme/widgets", api=api).where
    assert (where.api, where.web, where.git) == (asked, seen, f"{seen}/acme/widgets.git")


@pytest.mark.parametrize(
    "said",
    [
        {"repo": "widgets"},
        {"repo": "../widgets"},
        {"repo": "a/b/c"},
        {"repo": "acme/wid gets"},
        {"api": "http://ghe.example/api/v3"},
        {"api": "https://ghe.example"},
        {"api": "https://user:word@ghe.example/api/v3"},
    ],
)
def test_what_is_no_repository_or_no_api_is_said_before_anything_is_asked(said: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        GitHubForge(GitHubPlace(**{"repo": "acme/widgets", "token": SECRET, **said}))
    assert caught.value.hint


async def test_without_a_token_or_a_whole_app_nothing_is_opened() -> None:
    for lacking in ({}, {"app": "1"}, {"app": "1", "installation": 2}, {"installation": 2, "private_key": "k"}):
        with pytest.raises(UsageError) as caught:
            await GitHubForge.open(GitHubPlace(repo="acme/widgets", **lacking))
        assert "forge.token" in caught.value.hint


async def test_a_missing_library_is_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        await GitHubForge.open(HERE)
    assert caught.value.hint == "pip install '.[github]'  # where you cloned Resolvent"


def test_a_place_does_not_tell_its_secrets() -> None:
    assert SECRET not in repr(HERE) and "PEM" not in repr(GitHubPlace(repo="a/b", private_key="PEM"))


def test_numbers_and_pages_of_this_repository_are_references_and_nothing_else_is() -> None:
    where = HERE.where
    page, api = "https://github.com/acme/widgets", "https://api.github.com/repos/acme/widgets"
    for reference in ("7", "#7", " 7 ", f"{page}/issues/7", f"{page}/issues/7/", f"{api}/issues/7", page + "/ISSUES/7"):
        assert where.number(reference, "issue") == 7
    for reference in ("7", f"{page}/pull/7", f"{api}/pulls/7", "https://github.com/ACME/Widgets/pull/7"):
        assert where.number(reference, "pull") == 7
    others = (f"{page}/pull/7", f"{page}/issues/7#issuecomment-9", "https://evil.example/acme/widgets/issues/7")
    for reference in (*others, "https://github.com/acme/other/issues/7", f"{page}/issues/7\n8", "٧", ""):
        with pytest.raises(NotFound):
            where.number(reference, "issue")


def test_a_comment_is_found_by_its_page_and_by_its_api_address() -> None:
    where = HERE.where
    page = "https://github.com/acme/widgets"
    assert where.comment(f"{page}/issues/7#issuecomment-9") == (9, (7, "issue"))
    assert where.comment(f"{page}/pull/7#issuecomment-9") == (9, (7, "pull"))
    assert where.comment("https://api.github.com/repos/acme/widgets/issues/comments/9") == (9, None)
    for other in (f"{page}/issues/7", f"{page}/pull/7#discussion_r9", "https://github.com/a/b/pull/7#issuecomment-9"):
        with pytest.raises(NotFound):
            where.comment(other)


def test_no_part_of_an_address_leads_anywhere_else() -> None:
    assert path("repos", "a", "labels", "x/../y?z#é") == "/repos/a/labels/x%2F..%2Fy%3Fz%23%C3%A9"
    for part in ("", ".", ".."):
        with pytest.raises(ForgeRefused):
            path("issues", 5, "labels", part)


@pytest.mark.parametrize(
    "name", ["", "-d", "a b", "a..b", "a:b", "x.lock", "a.lock/b", "a\0b", "@{1}", "/a", "a/", "@"]
)
def test_what_git_takes_for_no_branch_is_none(name: str) -> None:
    assert not is_branch(name)
    assert is_branch("resolvent/issue-1") and is_branch("fix/ü-🙂")


def test_what_to_type_names_the_pull_request_and_after_its_merge_the_base() -> None:
    forge = GitHubForge(HERE)
    pull = PullRequest(number=8, url="u", title="t", head="x; rm -rf /", head_commit="c", base="main")
    page = "https://github.com/acme/widgets"
    assert forge.fetch_line(pull) == f"git fetch {page} refs/pull/8/head && git checkout FETCH_HEAD"
    merged = pull.model_copy(update={"state": "merged", "base": "re lease"})
    assert forge.fetch_line(merged) == f"git fetch {page} 're lease' && git merge --ff-only FETCH_HEAD"


def test_a_log_loses_its_colours_and_times_and_nothing_else() -> None:
    red = "\ufeff2026-01-02T03:04:05.1234567Z \x1b[31;1mred\x1b[0m 2026-01-02\r\n"
    log = f"{red}2026-01-02T03:04:05Z \n  indented\x1b]0;t\x07"
    assert plain_log(log) == "red 2026-01-02\r\n\n  indented"


# --- who must act


def answered(status: int, said: str = "{}", *, method: str = "GET", **headers: str) -> ResolventError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(Answer(method, "/repos/acme/widgets", status, named, said.encode()), repo="acme/widgets")


@pytest.mark.parametrize(
    ("error", "kind", "auth", "says"),
    [
        (answered(401, '{"message": "Bad credentials"}'), ForgeRefused, True, "Bad credentials"),
        (answered(403, '{"message": "Repository was archived so is read-only."}'), ForgeRefused, None, "archived"),
        (answered(403, x_github_sso="required; url=https://github.com/x"), ForgeRefused, True, "single sign-on"),
        (answered(403, '{"message": "Resource not accessible by integration"}'), ForgeRefused, True, "integration"),
        (
            answered(404, method="POST", x_oauth_scopes="read:org", x_accepted_oauth_scopes="public_repo, repo"),
            ForgeRefused,
            True,
            "scope repo",
        ),
        (answered(404, method="GET", x_oauth_scopes="", x_accepted_oauth_scopes="repo"), NotFound, None, "nothing"),
        (
            answered(404, method="POST", x_oauth_scopes="repo", x_accepted_oauth_scopes="repo"),
            NotFound,
            None,
            "nothing",
        ),
        (answered(410, '{"message": "Issues are disabled for this repo"}'), ForgeRefused, None, "disabled"),
        (
            answered(422, '{"message": "Validation Failed", "errors": [{"message": "No commits"}]}'),
            ForgeRefused,
            None,
            "No",
        ),
        (
            answered(422, '{"message": "x", "errors": ["plain", 3, null, {"field": "f", "code": "c"}]}'),
            ForgeRefused,
            None,
            "f c",
        ),
        (answered(500), ForgeDown, None, "status 500"),
        (answered(502, "<html>"), ForgeDown, None, "status 502"),
        (answered(400, "[1]"), ForgeRefused, None, "status 400"),
    ],
    ids=range(13),
)
def test_an_answer_says_who_must_act(error: ResolventError, kind: type, auth: bool | None, says: str) -> None:
    assert type(error) is kind and error.details.get("auth") is auth
    assert says in error.message and "\n" not in error.message
    assert error.hint or kind is not NotFound


def test_a_long_answer_of_many_lines_is_one_line() -> None:
    error = answered(422, '{"message": "' + "line\\n" * 5000 + '"}')
    assert len(error.message) < 400 and "\n" not in error.message


def test_graphql_tells_what_is_absent_forbidden_wrong_and_broken_apart() -> None:
    kinds = {"NOT_FOUND": NotFound, "FORBIDDEN": ForgeRefused, "UNPROCESSABLE": ForgeRefused, "": ForgeDown}
    for named, kind in kinds.items():
        assert type(from_graphql([{"type": named, "message": "no"}], repo="a/b")) is kind
    assert type(from_graphql("nonsense", repo="a/b")) is ForgeDown


# --- what counts of what CI says


def run(id: int, conclusion: str, app: int | None, name: str = "build") -> Run:
    by = {"id": app} if app else None
    status = "completed" if conclusion else "in_progress"
    return Run.model_validate({"id": id, "name": name, "status": status, "conclusion": conclusion or None, "app": by})


ANYBODY: frozenset[int] = frozenset()
GREEN = Word("build", "passed", "")
RED = Word("build", "failed", "")


@pytest.mark.parametrize(
    ("runs", "statuses", "apps", "state"),
    [
        ([run(1, "failure", 5), run(2, "success", 5)], [], ANYBODY, "passed"),
        ([run(1, "failure", 5), run(2, "success", 6)], [], ANYBODY, "failed"),
        ([run(1, "success", 5), run(2, "", 6)], [], ANYBODY, "pending"),
        ([run(2, "success", 5)], [RED], ANYBODY, "failed"),
        ([], [GREEN], ANYBODY, "passed"),
        ([run(1, "success", 5), run(2, "failure", 6)], [RED], frozenset({5}), "passed"),
        ([run(1, "failure", 5), run(2, "success", 6)], [GREEN], frozenset({5}), "failed"),
        ([run(2, "success", 6), run(3, "success", None)], [GREEN], frozenset({5}), "pending"),
        ([run(1, "success", 5)], [], frozenset({5, 6}), "pending"),
        ([run(1, "success", 5), run(2, "success", 6)], [], frozenset({5, 6}), "passed"),
    ],
)
def test_the_worst_of_what_counts_is_what_a_check_says(
    runs: list[Run], statuses: list[Word], apps: frozenset[int], state: str
) -> None:
    for ordered in (runs, runs[::-1]):
        assert counted([*ordered, run(9, "failure", 5, "other")], statuses, {"build": apps})["build"].state == state


def test_a_check_nobody_spoke_of_has_no_word_and_neither_has_one_nobody_asked_for() -> None:
    assert counted([run(1, "success", 5, "other")], [], {"build": ANYBODY}) == {}


# --- limits


class Clock:
    def __init__(self) -> None:
        self.at = 1_000_000.0

    def now(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limits(remaining: int, *, reset: float, date: float, resource: str = "core", limit: int = 5000) -> dict[str, str]:
    said = {"remaining": remaining, "limit": limit, "reset": int(reset), "resource": resource}
    return {f"x-ratelimit-{name}": str(value) for name, value in said.items()} | {"date": formatdate(date, usegmt=True)}


@pytest.mark.spec("F8")
def test_nobody_sends_anything_before_the_end_of_a_secondary_limit(clock: Clock) -> None:
    budget = Budget(reserve=0, now=clock.now)
    budget.hear(403, {"retry-after": "30"})
    for write in (False, True):
        with pytest.raises(ForgeDown) as caught:
            budget.admit("core", write=write)
        assert caught.value.details["until"] == clock.at + 30
    clock.at += 30
    budget.admit("core", write=True)


def test_who_is_refused_again_for_being_too_quick_waits_longer_each_time_up_to_an_hour(clock: Clock) -> None:
    budget = Budget(reserve=0, now=clock.now)
    waits = []
    for _ in range(8):
        until = budget.limited(422, {}, "Validation Failed; was submitted too quickly")
        assert until is not None
        waits.append(until - clock.at)
        with pytest.raises(ForgeDown):
            budget.admit("core", write=True)
        budget.admit("core", write=False)
        clock.at = until
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    clock.at += 3600
    assert budget.limited(422, {}, "was submitted too quickly") == clock.at + 60
    assert budget.limited(422, {}, "Validation Failed") is None


def test_graphql_tells_its_limits_in_words_and_all_are_quiet_until_then(clock: Clock) -> None:
    budget = Budget(reserve=0, now=clock.now)
    assert budget.limited_graphql({}, "Could not resolve", {"NOT_FOUND"}) is None
    budget.hear(200, limits(0, reset=clock.at + 90, date=clock.at, resource="graphql"))
    assert budget.limited_graphql({}, "API rate limit exceeded", {"RATE_LIMITED"}) == clock.at + 90
    clock.at += 90
    # And where no header says when.
    assert budget.limited_graphql({}, "API rate limit exceeded", {"RATE_LIMITED"}) == clock.at + 60
    with pytest.raises(ForgeDown):
        budget.admit("graphql", write=True)
    budget.admit("core", write=False)
    said = "You have exceeded a secondary rate limit"
    assert budget.limited_graphql({"retry-after": "30"}, said, set()) == clock.at + 30
    with pytest.raises(ForgeDown):
        budget.admit("core", write=False)


def test_a_spent_limit_is_over_when_the_servers_clock_says_so(clock: Clock) -> None:
    budget = Budget(reserve=0, now=clock.now)
    # Their clock is an hour ahead of ours; it is the 90 seconds between their two words that count.
    budget.hear(403, limits(0, reset=clock.at + 3690, date=clock.at + 3600))
    with pytest.raises(ForgeDown) as caught:
        budget.admit("core", write=True)
    assert caught.value.details["until"] == clock.at + 90
    budget.admit("search", write=False)
    clock.at += 90
    budget.admit("core", write=True)


def test_below_the_reserve_reads_wait_and_writes_go(clock: Clock) -> None:
    budget = Budget(reserve=500, now=clock.now)
    budget.hear(200, limits(501, reset=clock.at + 60, date=clock.at))
    budget.admit("core", write=False)
    budget.hear(200, limits(500, reset=clock.at + 60, date=clock.at))
    budget.admit("core", write=True)
    with pytest.raises(ForgeDown) as caught:
        budget.admit("core", write=False)
    assert caught.value.details["until"] == clock.at + 60
    clock.at += 61
    budget.admit("core", write=False)


def test_a_reserve_larger_than_the_limit_does_not_stop_everything(clock: Clock) -> None:
    budget = Budget(reserve=500, now=clock.now)
    budget.hear(200, limits(55, limit=60, reset=clock.at + 60, date=clock.at))
    budget.admit("core", write=False)


@pytest.mark.parametrize(
    "headers", [{"retry-after": "soon"}, {"x-ratelimit-remaining": "½"}, {"x-ratelimit-reset": "-"}]
)
def test_limits_without_sense_are_no_limits(clock: Clock, headers: dict[str, str]) -> None:
    budget = Budget(reserve=500, now=clock.now)
    budget.hear(403, headers)
    budget.admit("core", write=False)


# --- what is kept


def test_answers_are_kept_across_restarts_in_a_file_only_we_can_read(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "cache")
    answers.keep("https://x/1 json", httpx.Headers({"ETag": 'W/"1"', "Link": "<l>", "Set-Cookie": "no"}), b"[1]")
    answers.close()
    (file,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Answers(tmp_path / "cache").find("https://x/1 json") == ('W/"1"', {"etag": 'W/"1"', "link": "<l>"}, b"[1]")


def test_the_least_used_answers_make_room(tmp_path: Path) -> None:
    answers = Answers(tmp_path, max_bytes=10_000)
    for at in range(100):
        answers.keep(f"https://x/{at}", httpx.Headers({"etag": "e"}), b"x" * 500)
        answers.used("https://x/0")
    answers.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        kept = {asked for (asked,) in database.execute("SELECT asked FROM answers")}
    assert len(kept) == 10 and {"https://x/0", "https://x/99"} <= kept


def test_a_file_that_is_no_database_is_only_as_if_nothing_were_kept(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_bytes(b"not a database at all" * 100)
    answers = Answers(tmp_path)
    assert answers.find("x") is None
    answers.keep("x", httpx.Headers({"etag": "e"}), b"1")
    answers.close()
    found = Answers(tmp_path).find("x")
    assert found is not None and found[2] == b"1"


def test_a_directory_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answers = Answers(tmp_path / "file")
    answers.keep("x", httpx.Headers({"etag": "e"}), b"1")
    assert answers.find("x") is not None
