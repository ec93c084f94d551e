"""Where a run starts: exactly one issue, pull request or file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvent.domain.entry import Entry, entry_point
from resolvent.errors import UsageError


@pytest.mark.conforms("S0.1")
@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("task", "pull", "file"),
    [("42", "17", None), ("42", None, "bug.md"), (None, "17", "bug.md"), ("42", "17", "bug.md")],
)
def test_two_entry_points_are_refused(task: str | None, pull: str | None, file: str | None) -> None:
    with pytest.raises(UsageError, match="more than one was given") as refused:
        entry_point(task, pull=pull, file=file)
    assert "resolvent resolve" in refused.value.hint


@pytest.mark.conforms("S0.1")
@pytest.mark.spec("R1")
@pytest.mark.parametrize("task", [None, "", "   ", "\n"])
def test_no_entry_point_is_refused(task: str | None) -> None:
    with pytest.raises(UsageError, match="nothing was given"):
        entry_point(task)


@pytest.mark.conforms("S0.1", "S1.2")
@pytest.mark.parametrize(
    "task",
    ["42", "#42", " 42 ", "https://forge.example/acme/widgets/issues/42", "local:issues/42"],
)
def test_an_issue_is_named_by_number_or_link(task: str) -> None:
    entry = entry_point(task)
    assert entry == Entry(kind="issue", reference="42")
    assert entry.mode == "new_issue"


@pytest.mark.conforms("S0.1", "S1.2")
@pytest.mark.parametrize("pull", ["17", "#17", "https://forge.example/acme/widgets/pull/17", "local:pulls/17"])
def test_a_pull_request_is_named_by_number_or_link(pull: str) -> None:
    entry = entry_point(pull=pull)
    assert entry == Entry(kind="pull", reference="17")
    assert entry.mode == "existing_pr"


@pytest.mark.conforms("S1.1")
@pytest.mark.parametrize(
    ("task", "entry"),
    [
        ("please fix issue #42 before Friday", Entry(kind="issue", reference="42")),
        ("Resolve https://forge.example/a/b/issues/42, it hurts", Entry(kind="issue", reference="42")),
        ("see (https://forge.example/a/b/issues/42).", Entry(kind="issue", reference="42")),
        ("continue PR 17", Entry(kind="pull", reference="17")),
        ("continue pull request #17 please", Entry(kind="pull", reference="17")),
        ("finish https://forge.example/a/b/pull/17#discussion_r5", Entry(kind="pull", reference="17")),
        ("fix #42, that is #42 again", Entry(kind="issue", reference="42")),
    ],
)
def test_a_sentence_with_one_entry_point_starts_there(task: str, entry: Entry) -> None:
    assert entry_point(task) == entry


@pytest.mark.conforms("S1.1", "S0.1")
@pytest.mark.parametrize(
    "task",
    [
        "fix #42 and #43",
        "fix #42 with PR 17",
        "https://forge.example/a/b/issues/42 and https://forge.example/a/b/pull/17",
    ],
)
def test_a_sentence_with_two_entry_points_is_refused(task: str) -> None:
    with pytest.raises(UsageError, match="more than one issue or pull request"):
        entry_point(task)


@pytest.mark.conforms("S1.1")
@pytest.mark.parametrize("task", ["make it better", "version 42 is broken", "abc#42", "path/#42", "-1"])
def test_a_sentence_without_an_entry_point_is_refused(task: str) -> None:
    with pytest.raises(UsageError, match="no issue or pull request"):
        entry_point(task)


@pytest.mark.parametrize("pull", ["seventeen", "#", "1 2", "https://forge.example/"])
def test_what_is_no_pull_request_is_refused(pull: str) -> None:
    with pytest.raises(UsageError, match="pull request"):
        entry_point(pull=pull)


def test_a_file_starts_a_new_issue() -> None:
    entry = entry_point(file="bug.md")
    assert (entry.kind, entry.reference, entry.mode) == ("file", "bug.md", "new_issue")


@given(st.text(max_size=200))
def test_any_text_is_one_entry_or_a_usage_error(task: str) -> None:
    try:
        entry = entry_point(task)
    except UsageError as refused:
        assert refused.hint
    else:
        assert entry.reference.isdecimal()
