"""What drafters and reviewers of a design answer: what fits, what is malformed, and what the message says."""

import json
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvent.domain.design import MAX_LETTERS, DesignDraft, DesignReview, DesignRevision, SolutionDesign
from resolvent.domain.job import Reply
from resolvent.domain.model import Value
from resolvent.engine.answers import grammar, parse
from resolvent.engine.forms import SHAPES
from resolvent.errors import MalformedAnswer

MODELS = (DesignDraft, DesignRevision, DesignReview)


def text(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


def refused(model: type[Value], said: str, answer: str | None = None) -> str:
    with pytest.raises(MalformedAnswer) as caught:
        parse(model, Reply(text=said, answer=answer))
    assert "\n" not in caught.value.message
    return caught.value.message


DESIGN = text("""
    VERDICT=NEED_DESIGN_REVIEW
    BEGIN_SOLUTION_DESIGN
    root_cause: the cache is never emptied
      because nobody owns it
    severity: P1
    approach: give it an owner
    files_to_change:
    - src/cache.py: empties itself
    - src/store.py: owns it,
      and says when

      ```python
      - not: a point
      risks: none
      ```
    edge_cases:
      - two writers: the second waits
      * an empty cache
    test_strategy: a test that writes twice
    risks: slower writes
    alternatives_rejected:
    1. no cache at all: too slow
    2) a second cache
    END_SOLUTION_DESIGN
""")
REVISED = DESIGN.replace("END_SOLUTION", "revision_notes: the owner changed\nEND_SOLUTION")
PARTS = SolutionDesign(
    root_cause="the cache is never emptied\nbecause nobody owns it",
    severity="P1",
    approach="give it an owner",
    files_to_change=(
        "src/cache.py: empties itself",
        "src/store.py: owns it,\nand says when\n\n```python\n- not: a point\nrisks: none\n```",
    ),
    edge_cases=("two writers: the second waits", "an empty cache"),
    test_strategy="a test that writes twice",
    risks=("slower writes",),
    alternatives_rejected=("no cache at all: too slow", "a second cache"),
)
FEEDBACK = text("""
    DESIGN_NEEDS_REVISION
    BEGIN_REVISION_FEEDBACK
    - store.py:12 has an owner already
      called `Pool`
    - the test
    would pass today
    END_REVISION_FEEDBACK
""")
APPROVED = "DESIGN_APPROVED\nAPPROVAL_NOTES=the owner = the pool"


@pytest.mark.conforms("S2.4", "S2.5")
def test_a_draft_is_read_key_by_key_with_single_values_and_lists() -> None:
    said = parse(DesignDraft, Reply(text=f"I looked around.\n\n{DESIGN}\n"))
    assert said == DesignDraft(verdict="NEED_DESIGN_REVIEW", design=PARTS)


@pytest.mark.conforms("S2.4")
def test_nothing_to_do_comes_with_its_reason() -> None:
    said = parse(DesignDraft, Reply(text="VERDICT=NO_ACTION_NEEDED\nREASON=fixed in 1.2"))
    assert said == DesignDraft(verdict="NO_ACTION_NEEDED", reason="fixed in 1.2")


@pytest.mark.conforms("S2.5")
def test_a_revision_says_what_changed() -> None:
    said = parse(DesignRevision, Reply(text=REVISED))
    assert said.design == PARTS.model_copy(update={"revision_notes": "the owner changed"})
    assert "revision_notes" in refused(DesignRevision, DESIGN)
    assert refused(DesignRevision, "VERDICT=NO_ACTION_NEEDED\nREASON=the reviewer is right")


@pytest.mark.conforms("S2.5")
@pytest.mark.parametrize(
    "key",
    [
        "root_cause",
        "severity",
        "approach",
        "files_to_change",
        "edge_cases",
        "test_strategy",
        "risks",
        "alternatives_rejected",
    ],
)
def test_a_design_without_one_of_its_keys_is_malformed(key: str) -> None:
    lacking = re.sub(rf"(?ms)^{key}:.*?(?=^[a-zE])", "", DESIGN)
    assert key in refused(DesignDraft, lacking)


@pytest.mark.conforms("S2.5")
@pytest.mark.parametrize("severity", ["P0", "P1", "P2", "feature"])
def test_a_design_may_have_every_severity_of_the_grammar(severity: str) -> None:
    said = parse(DesignDraft, Reply(text=DESIGN.replace("severity: P1", f"severity: {severity}")))
    assert said.design is not None and said.design.severity == severity


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("severity: P1", "severity: P3", "severity"),
        ("severity: P1", "severity: P1 or P2", "severity"),
        ("approach: give it an owner", "approach:", "approach"),
        ("risks: slower writes", "risks: two\n- slower\n- larger", "text on its line and a list below it"),
        ("risks: slower writes", "risks:\nthere are two\n- slower\n- larger", "belongs to no point of the list"),
        ("risks: slower writes", "risks:\n- slower\n\nand larger", "belongs to no point of the list"),
        ("risks: slower writes", "risks:\n- slower\n-", "belongs to no point of the list"),
        ("risks: slower writes", "risks:\n- slower\n# larger", "belongs to no point of the list"),
        ("risks: slower writes", "risks: one\nrisks: two", "stands twice"),
        ("root_cause:", "because of this\nroot_cause:", "must begin with a key"),
        ("  ```\nedge", "edge", "never closed"),
        ("VERDICT=NEED_DESIGN_REVIEW", "VERDICT=NEED_FIX", "must stand directly below"),
        ("END_SOLUTION_DESIGN", "", "never ended"),
        ("END_SOLUTION_DESIGN", "END_SOLUTION_DESIGN\nand more", "nothing may follow"),
        ("END_SOLUTION_DESIGN", "END_SOLUTION_DESIGN\nREASON=both", "does not take REASON="),
        ("root_cause: the", "root_cause: \x00the", "NUL"),
    ],
)
def test_a_draft_that_does_not_fit_is_malformed(old: str, new: str, message: str) -> None:
    assert old in DESIGN
    assert message in refused(DesignDraft, DESIGN.replace(old, new, 1))


@pytest.mark.conforms("S2.4")
@pytest.mark.parametrize(
    "said",
    [
        "VERDICT=NO_ACTION_NEEDED",
        "VERDICT=NO_ACTION_NEEDED\nREASON=",
        "VERDICT=NO_ACTION_NEEDED\nREASON=<brief explanation>",
        f"VERDICT=NO_ACTION_NEEDED\nREASON=none\n{DESIGN}",
        f"{DESIGN}\nVERDICT=NO_ACTION_NEEDED\nREASON=none",
        "> VERDICT=NO_ACTION_NEEDED\n> REASON=quoted",
        f"```\n{DESIGN}\n```",
        "",
    ],
)
def test_two_verdicts_half_of_one_or_none_are_malformed(said: str) -> None:
    refused(DesignDraft, said)


@pytest.mark.conforms("S2.11")
def test_a_review_approves_with_notes_or_asks_for_revision_with_feedback() -> None:
    assert parse(DesignReview, Reply(text=f"Fine.\n{APPROVED}")) == DesignReview(
        verdict="DESIGN_APPROVED", approval_notes="the owner = the pool"
    )
    assert parse(DesignReview, Reply(text=FEEDBACK)) == DesignReview(
        verdict="DESIGN_NEEDS_REVISION",
        feedback=("store.py:12 has an owner already\ncalled `Pool`", "the test\nwould pass today"),
    )


def test_a_point_may_begin_with_code() -> None:
    said = parse(DesignReview, Reply(text=FEEDBACK.replace("- the test", "- ```\n  - this\n  ```\n- the test")))
    assert said.feedback[1:] == ("```\n- this\n```", "the test\nwould pass today")


def test_a_reviewer_may_name_the_comment_it_posted() -> None:
    for said in (APPROVED, FEEDBACK):
        reply = Reply(text=f"{said}\nREVIEW_COMMENT_URL=local:issues/1#comment-2")
        assert parse(DesignReview, reply).comment_url == "local:issues/1#comment-2"
        assert "REVIEW_COMMENT_URL" in refused(DesignReview, f"{said}\nREVIEW_COMMENT_URL=")


@pytest.mark.conforms("S2.11")
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("DESIGN_APPROVED", "APPROVAL_NOTES="),
        ("DESIGN_APPROVED\nAPPROVAL_NOTES=", "APPROVAL_NOTES="),
        ("DESIGN_APPROVED\nAPPROVAL_NOTES=<brief summary>", "APPROVAL_NOTES="),
        ("DESIGN_NEEDS_REVISION", "BEGIN_REVISION_FEEDBACK"),
        (FEEDBACK.replace("\nEND_REVISION_FEEDBACK", ""), "never ended"),
        ("DESIGN_NEEDS_REVISION\nBEGIN_REVISION_FEEDBACK\nEND_REVISION_FEEDBACK", "feedback"),
        (FEEDBACK.replace("- store", "store"), "belongs to no point"),
        (FEEDBACK.replace("- the test", "\nbesides, the test"), "belongs to no point"),
        (FEEDBACK.replace("- the test", "- ```"), "never closed"),
        (f"{FEEDBACK}\nAPPROVAL_NOTES=but fine", "does not take APPROVAL_NOTES="),
        (f"{FEEDBACK}\n{APPROVED}", "differs from it"),
        (f"{APPROVED}\n{FEEDBACK}", "differs from it"),
        (f"{APPROVED}\nas I said", "nothing may follow"),
        ("The verdict is DESIGN_APPROVED", "there is no verdict"),
        ("**DESIGN_APPROVED**", "not indented, quoted or decorated"),
        ("NO_P0_P1", "there is no verdict"),
    ],
)
def test_a_review_that_does_not_fit_is_never_an_approval(said: str, message: str) -> None:
    assert message in refused(DesignReview, said)


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (DesignDraft, DesignDraft(verdict="NEED_DESIGN_REVIEW", design=PARTS)),
        (DesignDraft, DesignDraft(verdict="NO_ACTION_NEEDED", reason="a duplicate")),
        (DesignRevision, parse(DesignRevision, Reply(text=REVISED))),
        (DesignReview, DesignReview(verdict="DESIGN_APPROVED", approval_notes="sound")),
        (DesignReview, DesignReview(verdict="DESIGN_NEEDS_REVISION", feedback=("wrong file",))),
    ],
)
def test_the_same_answer_may_come_as_json(model: type[Value], answer: Value) -> None:
    assert parse(model, Reply(text="done", answer=answer.model_dump_json(exclude_defaults=True))) == answer


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (DesignDraft, {"verdict": "NEED_DESIGN_REVIEW"}),
        (DesignDraft, {"verdict": "NO_ACTION_NEEDED"}),
        (DesignDraft, {"verdict": "NO_ACTION_NEEDED", "reason": "  "}),
        (DesignDraft, {"verdict": "NO_ACTION_NEEDED", "reason": "x", "design": PARTS.model_dump(mode="json")}),
        (DesignDraft, {"verdict": "NEED_DESIGN_REVIEW", "reason": "x", "design": PARTS.model_dump(mode="json")}),
        (DesignRevision, {"verdict": "NEED_DESIGN_REVIEW", "design": PARTS.model_dump(mode="json")}),
        (DesignReview, {"verdict": "DESIGN_APPROVED"}),
        (DesignReview, {"verdict": "DESIGN_APPROVED", "approval_notes": "x", "feedback": ["but"]}),
        (DesignReview, {"verdict": "DESIGN_NEEDS_REVISION", "feedback": []}),
        (DesignReview, {"verdict": "DESIGN_NEEDS_REVISION", "feedback": [" "]}),
        (DesignReview, {"verdict": "DESIGN_NEEDS_REVISION", "feedback": "all of it"}),
        (DesignReview, {"verdict": "DESIGN_NEEDS_REVISION", "feedback": ["x"], "approval_notes": "x"}),
        (DesignReview, {"verdict": "DESIGN_APPROVED", "approval_notes": "x", "approved": True}),
        (DesignReview, {"verdict": "APPROVED", "approval_notes": "x"}),
    ],
)
def test_json_that_contradicts_itself_is_malformed(model: type[Value], answer: dict[str, object]) -> None:
    refused(model, "", json.dumps(answer))


def test_json_and_tokens_must_agree() -> None:
    answer = DesignReview(verdict="DESIGN_APPROVED", approval_notes="sound").model_dump_json(exclude_defaults=True)
    assert "disagree" in refused(DesignReview, FEEDBACK, answer)


def test_a_design_that_no_comment_could_hold_is_malformed() -> None:
    assert "one comment" in refused(DesignDraft, DESIGN.replace("give it", "x" * MAX_LETTERS))
    many = "\n".join(["- a gap"] * 101)
    assert "feedback" in refused(DesignReview, FEEDBACK.replace("- the test", f"{many}\n- the test"))


@pytest.mark.parametrize("model", MODELS)
def test_how_to_answer_names_every_token_and_prints_none_on_a_line_of_its_own(model: type[Value]) -> None:
    told = grammar(model)
    for token in SHAPES[model].markers:
        assert f"`{token}`" in told
        assert token not in [line.strip(" \t>*`-") for line in told.splitlines()]


@given(st.lists(st.sampled_from(["- a", "* b", "1. c", "  more", "more", "", "```", "  ```", "-", "# d"]), max_size=12))
def test_no_line_of_a_list_is_lost(lines: list[str]) -> None:
    block = "\n".join(("DESIGN_NEEDS_REVISION", "BEGIN_REVISION_FEEDBACK", *lines, "END_REVISION_FEEDBACK"))
    try:
        said = parse(DesignReview, Reply(text=block))
    except MalformedAnswer:
        return
    kept = "\n".join(said.feedback)
    for letter in "abc":
        assert kept.count(letter) == "\n".join(lines).count(letter)
    assert kept.count("more") == "\n".join(lines).count("more")
