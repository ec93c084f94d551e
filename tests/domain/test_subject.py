"""Subjects: which issue a pull request says it closes, and what a run claims."""

import time

import pytest

from resolvent.domain.subject import Issue, PullRequest


def pull(body: str, title: str = "Empty the cache") -> PullRequest:
    return PullRequest(number=7, url="https://x/pull/7", title=title, body=body, head="h", head_commit="c", base="main")


@pytest.mark.conforms("S1.4", "S0.4")
@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    ("body", "closes"),
    [
        ("Fixes #123", "#123"),
        ("fixes #123.", "#123"),
        ("This FIXED #9, at last", "#9"),
        ("fix #1", "#1"),
        ("Closes https://github.com/acme/widgets/issues/9", "https://github.com/acme/widgets/issues/9"),
        ("closed: http://localhost:8080/acme/widgets/issues/10\n", "http://localhost:8080/acme/widgets/issues/10"),
        ("Resolves:  #12", "#12"),
        ("resolve\t#12", "#12"),
        ("Closes #3 and fixes #4", "#3"),
        ("<!-- Fixes #1 -->\nFixes #2", "#2"),
        ("(closes #5)", "#5"),
    ],
)
def test_a_pull_request_names_the_issue_it_closes(body: str, closes: str) -> None:
    assert pull(body).closes == closes
    assert pull("", title=body).closes == (closes if "<!--" not in body else "#1")


@pytest.mark.conforms("S1.4", "S0.4")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "See #123",
        "prefixes #123",
        "Fixes 123",
        "Fixes#123",
        "Fixes #abc",
        "Fixes #12abc",
        "Closes https://github.com/acme/widgets/pull/9",
        "<!-- Fixes #1 -->",
        "<!-- Fixes #1",
    ],
)
def test_a_pull_request_that_names_no_issue_closes_none(body: str) -> None:
    assert pull(body).closes is None


@pytest.mark.conforms("S1.4")
def test_the_body_counts_before_the_title() -> None:
    assert pull("Closes #2", title="Fixes #1").closes == "#2"
    assert pull("nothing", title="Fixes #1").closes == "#1"


@pytest.mark.parametrize("unit", ["<!--", "fixes http://", "fixes https://x/issues/", "fixes ", "fix\n\n\n"])
def test_a_hostile_body_is_read_in_linear_time(unit: str) -> None:
    began = time.process_time()
    assert pull(unit * (1_000_000 // len(unit))).closes is None
    assert time.process_time() - began < 2


def test_a_subject_has_one_key_that_a_run_can_claim() -> None:
    assert Issue(number=42, title="t").key == "issue-42"
    assert Issue(number=42, title="t").reference == "#42"
    assert Issue(number=None, title="t", slug="bug").key == "file-bug"
    assert Issue(number=None, title="t", slug="bug").reference == "bug"
    assert pull("").key == "pr-7"
