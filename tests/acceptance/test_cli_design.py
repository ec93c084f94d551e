"""resolvent design, and resolve --design, as a person types them."""

import json
import re
import subprocess
import sys

import pytest

from resolvent.domain.design import DesignDraft, DesignReview
from resolvent.domain.model import Value

from .conftest import HONEST
from .process import Place

DESIGNER = r"""
case "$RESOLVENT_STEP" in
  design|revise_design) cat <<'END'
VERDICT=NEED_DESIGN_REVIEW
BEGIN_SOLUTION_DESIGN
root_cause: the value is bad
severity: P1
approach: make it good
files_to_change:
- value.txt: says good
edge_cases:
- an empty file
test_strategy: read it
risks:
- none known
alternatives_rejected:
- hiding it
revision_notes: none
END_SOLUTION_DESIGN
END
  ;;
  review_design) if grep -q "never content" value.txt; then cat <<'END'
DESIGN_NEEDS_REVISION
BEGIN_REVISION_FEEDBACK
- not content
- still not
END_REVISION_FEEDBACK
END
  else printf 'DESIGN_APPROVED\nAPPROVAL_NOTES=it holds\n'; fi ;;
esac
"""


def designed_by(place: Place) -> Place:
    place.agent(DESIGNER + HONEST)
    return place


@pytest.mark.conforms("S2.16", "S2.20")
def test_a_design_prints_its_status_and_the_link_of_the_comment_that_holds_it(place: Place) -> None:
    said = designed_by(place)("design", "1")
    assert said.code == 0
    lines = said.out.splitlines()
    (link,) = [line.partition("=")[2] for line in lines if line.startswith("DESIGN_COMMENT_URL=")]
    assert "DESIGN_STATUS=APPROVED" in lines and not [line for line in lines if line.startswith("DESIGN_NOTES=")]
    assert re.search(rf"^next: +resolvent resolve 1 --design-comment '?{link}'? ", said.out, re.M)
    document = place.outcome()
    assert (document["playbook"], document["outcome"], document["subject"]) == ("design", "argued", "issue-1")
    assert document["design"]["comment_url"] == link and document["pull_request"] is None
    shown = place("issue", "show", "1")
    assert "## Final Solution Design" in shown.out and "**Status**: APPROVED" in shown.out
    given = place("resolve", "1", "--design-comment", link, "--json")
    assert given.code == 0 and given.json["design"] is None


@pytest.mark.conforms("S2.19")
def test_a_consensus_prints_what_remains(place: Place) -> None:
    designed_by(place)
    (place.project / "value.txt").write_text("bad, and never content\n", encoding="utf-8")
    place.git("commit", "-q", "-a", "-m", "worse")
    said = place("design", "1")
    assert said.code == 0
    assert "DESIGN_STATUS=CONSENSUS\nDESIGN_COMMENT_URL=local:issues/1#" in said.out
    assert "\nDESIGN_NOTES=- not content - still not\n" in said.out


def test_a_design_of_a_file_is_printed_where_no_comment_can_hold_it(place: Place) -> None:
    designed_by(place)
    (place.project / "bug.md").write_text("# Bad\n\nIt is bad.\n", encoding="utf-8")
    said = place("design", "--file", "bug.md")
    assert said.code == 0
    assert "DESIGN_STATUS=APPROVED\n" in said.out and "DESIGN_COMMENT_URL" not in said.out
    assert "  ### Root Cause\n  the value is bad\n" in said.out


def test_resolve_designs_first_when_it_is_asked_to(place: Place) -> None:
    said = designed_by(place)("resolve", "1", "--design", "--json")
    document = said.json
    assert (said.code, document["outcome"], document["playbook"]) == (0, "proven", "resolve")
    assert (document["design"]["status"], document["design"]["rounds"]) == ("APPROVED", 1)
    asked = [step["step"] for step in document["steps"] if step["step"].startswith(("ask:", "edit:"))]
    assert asked[:3] == ["ask:design", "ask:review_design", "ask:analyze"] and "edit:implement" in asked


def test_what_cannot_be_designed_is_said_with_what_to_type(place: Place) -> None:
    for words in (
        ("design", "local:pulls/2"),
        ("resolve", "--pr", "2", "--design"),
        ("resolve", "1", "--design", "--design-comment", "local:issues/1#comment-1"),
        ("design",),
    ):
        said = place(*words, "--json")
        assert said.code == 2 and said.json["error"]["hint"].startswith("resolvent "), words


@pytest.mark.parametrize(("step", "model"), [("design", DesignDraft), ("review_design", DesignReview)])
def test_the_answers_of_the_example_agent_to_a_design_fit(place: Place, step: str, model: type[Value]) -> None:
    script, answer = place.directory / "example.py", place.directory / "answer.json"
    script.write_text(place("init", "--example-agent", "-").out, encoding="utf-8")
    environ = {"RESOLVENT_STEP": step, "RESOLVENT_ANSWER": str(answer)}
    words = [sys.executable, "-I", "-S", str(script)]
    subprocess.run(words, env=environ, input="the prompt", text=True, check=True, capture_output=True)
    assert model.model_validate_json(answer.read_bytes()) and json.loads(answer.read_text())["verdict"]
