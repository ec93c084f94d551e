"""The local forge by hand: issues, pull requests, checks."""

import subprocess
from pathlib import Path

import pytest

from .process import Place


def test_an_issue_is_opened_shown_commented_and_closed(place: Place) -> None:
    made = place("issue", "new", "Two is odd", "--body", "It is not.", "--label", "bug", "--json").json
    assert (made["number"], made["title"], made["labels"], made["state"]) == (2, "Two is odd", ["bug"], "open")
    assert "#2  open  Two is odd" in place("issue", "ls").out
    said = place("issue", "comment", "2", "I saw it too")
    assert said.out.strip() == "local:issues/2#comment-1"
    shown = place("issue", "show", "2", "--json").json
    assert [comment["body"] for comment in shown["comments"]] == ["I saw it too"]
    assert "I saw it too" in place("issue", "show", "2").out
    assert place("issue", "close", "2", "--json").json["state"] == "closed"
    assert [issue["number"] for issue in place("issue", "ls", "--json").json] == [1]
    assert [issue["number"] for issue in place("issue", "ls", "--state", "all", "--json").json] == [1, 2]


def test_a_closed_issue_starts_no_run(place: Place) -> None:
    place("issue", "close", "1")
    said = place("resolve", "1")
    assert said.code == 2 and "closed" in said.err


def test_an_issue_is_read_from_a_file(place: Place, tmp_path: Path) -> None:
    (tmp_path / "bug.md").write_text("# It crashes\n\nAlways.\n", encoding="utf-8")
    made = place("issue", "new", "--file", str(tmp_path / "bug.md"), "--json").json
    assert (made["title"], made["body"]) == ("It crashes", "Always.")
    said = place("issue", "new", "--file", str(tmp_path / "gone.md"))
    assert said.code == 4 and "does not exist" in said.err


def test_a_title_that_paints_the_terminal_is_shown_without_its_paint(place: Place) -> None:
    said = place("issue", "new", "red \x1b[31malert\x1b[0m \x1b]0;owned\x07", "--body", "a\x1b[2Jb")
    assert said.code == 0 and "\x1b" not in said.out and "red alert" in said.out
    assert "\x1b" not in place("issue", "ls").out + place("issue", "show", "2").out


def test_a_pull_request_is_listed_shown_and_merged_at_its_exact_head(place: Place) -> None:
    document = place("resolve", "1", "--json").json
    listed = place("pr", "ls", "--json").json
    assert [(pull["number"], pull["head_commit"]) for pull in listed] == [(2, document["change"])]
    shown = place("pr", "show", "2", "--json").json
    assert shown["fetch"].startswith("git fetch ") and shown["checks"] == []
    assert "git fetch " in place("pr", "show", "2").out and "resolvent/issue-1" in place("pr", "ls").out
    wrong = place("pr", "merge", "2", "--commit", "0" * 40)
    assert wrong.code == 1 and document["change"] in wrong.err
    assert place("pr", "show", "2", "--json").json["state"] == "open"
    said = place("pr", "merge", "2", "--commit", document["change"][:12])
    assert said.code == 0, said
    line = said.out.partition("next: ")[2].strip()
    subprocess.run(["sh", "-c", line], cwd=place.project, env=place.environ, check=True, capture_output=True)
    assert (place.project / "value.txt").read_text(encoding="utf-8") == "good\n"
    assert place("pr", "show", "2", "--json").json["state"] == "merged"
    assert place("issue", "show", "1", "--json").json["state"] == "closed"


def test_a_required_check_is_reported_by_hand(place: Place, tmp_path: Path) -> None:
    place("resolve", "1")
    named = place("pr", "check", "2", "ci/build", "--required", "--json").json
    assert [(check["name"], check["state"]) for check in named] == [("ci/build", "pending")]
    (tmp_path / "log").write_bytes(b"it \xff broke\n")
    failed = place("pr", "check", "2", "ci/build", "--state", "failed", "--log", str(tmp_path / "log"), "--json").json
    assert failed[0]["state"] == "failed" and "broke" in failed[0]["log"]
    assert "failed" in place("pr", "show", "2").out
    assert "passed" in place("pr", "check", "2", "ci/build", "--state", "passed").out
    assert place("pr", "check", "2", "ci/build", "--not-required", "--json").json == []
    said = place("pr", "check", "2", "ci/build", "--state", "failed", "--log", str(tmp_path / "gone"))
    assert said.code == 2 and "cannot be read" in said.err


@pytest.mark.conforms("S1.2")
def test_an_existing_pull_request_is_continued_and_no_other_is_opened(place: Place) -> None:
    first = place("resolve", "1", "--json").json
    place.agent('case "$RESOLVENT_STEP" in analyze_pull) echo VERDICT=INVALID ;; esac')
    said = place("resolve", "--pr", "2", "--json")
    assert said.code == 0 and said.json["subject"] == "pr-2" and said.json["outcome"] == "declined"
    assert [pull["number"] for pull in place("pr", "ls", "--json").json] == [first["pull_request"]["number"]]


def test_a_head_that_no_run_judged_is_merged_only_by_its_name(place: Place) -> None:
    document = place("resolve", "1", "--json").json
    line = next(word for word in place("pr", "show", "2").out.split() if word.endswith("forge.git"))
    place.git("fetch", "-q", line, "resolvent/issue-1")
    place.git("checkout", "-q", "FETCH_HEAD")
    (place.project / "value.txt").write_text("whatever\n", encoding="utf-8")
    place.git("commit", "-qam", "by hand")
    place.git("push", "-q", line, "HEAD:resolvent/issue-1")
    mine = place.git("rev-parse", "HEAD").strip()
    place.git("checkout", "-q", "main")
    said = place("pr", "merge", "2")
    assert said.code == 2 and mine[:12] in said.err and document["change"] != mine
    assert place("pr", "merge", "2", "--commit", mine[:12]).code == 0


def test_a_question_of_a_run_that_has_ended_takes_no_answer(place: Place) -> None:
    assert place("resolve", "1", "--merge", "ask").code == 3
    assert place("cancel").code == 0
    said = place("decide", "last", "merge")
    assert said.code == 2 and "has ended: cancelled" in said.err
