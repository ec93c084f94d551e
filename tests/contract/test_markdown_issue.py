"""Issues that come from a Markdown file."""

import os
from pathlib import Path

import pytest

from resolvent.adapters.forges.markdown import MAX_BYTES, issue_from_markdown
from resolvent.errors import NotFound, UsageError


def written(tmp_path: Path, text: str | bytes, name: str = "bug.md") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("# It panics\n\nOn `SELECT 1`.\n", "It panics", "On `SELECT 1`."),
        ("# It panics #\r\n\r\nOne\r\nTwo\r\n", "It panics", "One\r\nTwo"),
        ("\ufeff## Deep ##  \ntext", "Deep", "text"),
        ("It panics\n=========\ntext\n", "It panics", "text"),
        ("intro\n\n# Title\nrest", "Title", "intro\n\nrest"),
        ("```sh\n# a comment\n```\n# Title\nrest", "Title", "```sh\n# a comment\n```\nrest"),
        ("~~~\n```\n# not yet\n~~~\n# Title", "Title", "~~~\n```\n# not yet\n~~~"),
        ("---\nkind: bug\n---\n# Title\nrest", "Title", "---\nkind: bug\n---\nrest"),
        ("\n\njust a line\nand more\n", "just a line", "and more"),
        ("#hashtag is no heading\n", "#hashtag is no heading", ""),
        ("# Title", "Title", ""),
        ("# `a` *b* C# \n", "`a` *b* C#", ""),
    ],
)
def test_the_first_heading_is_the_title_and_the_rest_is_the_body(
    tmp_path: Path, text: str, title: str, body: str
) -> None:
    issue = issue_from_markdown(written(tmp_path, text))
    assert (issue.title, issue.body, issue.number, issue.key) == (title, body, None, "file-bug")


@pytest.mark.parametrize(
    ("name", "slug"),
    [("Bug Report.md", "bug-report"), ("a..b.lock", "a-b"), ("-x-.md", "x"), ("~^:?*[\\.md", None), ("バグ.md", None)],
)
def test_the_slug_comes_from_the_file_name_and_fits_into_a_branch(tmp_path: Path, name: str, slug: str | None) -> None:
    found = issue_from_markdown(written(tmp_path, "# T", name)).slug
    assert found == slug if slug else found.isalnum() and len(found) == 8


def test_a_very_long_name_makes_a_short_slug(tmp_path: Path) -> None:
    assert len(issue_from_markdown(written(tmp_path, "# T", "x-" * 100 + ".md")).slug) <= 50


NO_ISSUE = {
    "empty": b"",
    "blank": b" \n\r\n\t",
    "not UTF-8": b"\xff\xfe# T",
    "NUL": b"# T\0",
    "image": b"\x89PNG\r\n\x1a\n\0\0",
    "long title": b"# " + b"x" * 300,
    "huge": b"# T\n" + b"x" * MAX_BYTES,
    "no words": b"***\n---\n",
    "empty heading": b"# \ntext",
}


@pytest.mark.parametrize("content", NO_ISSUE.values(), ids=NO_ISSUE)
def test_a_file_that_is_no_small_text_with_a_title_is_a_usage_error_with_a_hint(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        issue_from_markdown(written(tmp_path, content))
    assert caught.value.hint


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        issue_from_markdown(tmp_path / "absent.md")


def test_what_is_not_a_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    for path in (tmp_path / "pipe.md", tmp_path, Path("/dev/zero"), tmp_path / "a\0b"):
        with pytest.raises(UsageError):
            issue_from_markdown(path)
