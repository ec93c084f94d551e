"""The report of a run: everything is on it, all of it as text."""

from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from resolvent.domain.decision import Decision, Question
from resolvent.domain.transcript import FileChanged, Noticed, Retried, Said, ToolAnswered, ToolCalled
from resolvent.receipts.page import page
from resolvent.receipts.patches import MOST_IN_ALL, MOST_LINES, cut
from resolvent.receipts.story import LOG_BYTES, Prompt, Story, told
from resolvent.testing.stage import Stage
from tests.playbooks.conftest import QUICK
from tests.playbooks.scenes import LONG_STORY

POISON = "</pre></details></section><script>x()</script><img src=x onerror=x()> {{ 7*7 }} & \x1b[31m\u202e\u200b\x00"
SHOWN = "</pre></details></section><script>x()</script><img src=x onerror=x()> {{ 7*7 }} & [U+202E]"


class Reader(HTMLParser):
    """The tags, attributes and texts of a page, as a browser would take them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    """The story of a run with findings, a fix and a deferred issue."""
    stage = await Stage.set_up(tmp_path, overrides=QUICK)
    try:
        played = await stage.play(LONG_STORY)
        yield await told(stage.app, await stage.app.run(played.document["run"]))
    finally:
        await stage.close()


async def test_everything_that_happened_is_on_the_page(story: Story) -> None:
    read = Reader(page(story))
    document = story.document
    for wanted in (
        document["run"],
        document["change"][:10],
        "proven",
        "the value is bad",
        "grep -q good value.txt || { echo the value is bad; exit 1; }",
        "F2 P1 there is no third file",
        "pre-existing",
        "local:issues/3",
        "third.txt` was never there",
        "+good",
        "-bad",
        "executed",
        "implement · author",
        "Nobody was asked anything.",
        story.prompts[0].digest,
        "IMPLEMENTATION_SUCCESS",
    ):
        assert wanted in read.text, wanted
    assert [tag for tag in read.tags if tag == "section"] == ["section"] * 9
    names = {checked.check.name: checked.said for checked in story.checks}
    assert names["reproducer"] == {"the base": ("SHOWN", 1), "the change": ("PASSED", 1)}
    assert names["reproducer F1"]["the first change"][0] == "SHOWN"


async def test_a_step_stands_on_the_timeline_where_it_was_done_and_by_whom(story: Story) -> None:
    assert story.steps[0].begins == 0
    assert all(0 <= step.begins <= 100 and step.begins + step.lasts <= 100.1 for step in story.steps)
    by = {step.row.name: step.agents for step in story.steps if step.agents}
    assert (by["implement"], by["review"]) == (("author",), ("reviewer",))


async def test_no_text_of_others_is_more_than_text(story: Story) -> None:
    clean = Reader(page(story))
    poisoned = Reader(page(poison(story)))
    assert "script" not in poisoned.tags and "img" not in poisoned.tags
    assert {name for name, _ in poisoned.attributes} <= {name for name, _ in clean.attributes}
    # One more than before: this run waits for a person.
    assert poisoned.tags.count("section") == clean.tags.count("section") + 1
    assert poisoned.text.count(SHOWN) > 30
    assert not set("\u202e\u200b\x1b\x00") & set(poisoned.text)


def poison(story: Story) -> Story:
    """The same run, in which everybody wrote the worst."""
    nasty = {"name": POISON, "command": POISON}
    checks = tuple(
        checked.model_copy(
            update={
                "check": checked.check.model_copy(update=nasty),
                "runs": tuple(ran.model_copy(update={"log": POISON}) for ran in checked.runs),
            }
        )
        for checked in story.checks
    )
    claims = {"description": POISON, "code_evidence": POISON, "reachability": POISON, "blast_radius": POISON}
    findings = tuple(
        one.model_copy(
            update={
                "claim": one.claim.model_copy(update=claims),
                "rationale": POISON,
                "issue": POISON,
                "rule": POISON,
                "repeats": POISON,
            }
        )
        for one in story.findings
    )
    question = Question(key="k", text=POISON, choices=(POISON,))
    decision = Decision(run="r", question=question, answer=POISON, by=POISON, reason=POISON, asked_at=1.0)
    moments = (
        Said(text=POISON),
        ToolCalled(call="1", tool=POISON, input=POISON),
        ToolAnswered(call="1", output=POISON),
        FileChanged(path=POISON),
        Retried(reason=POISON),
        Noticed(text=POISON),
    )
    steps = tuple(
        step.model_copy(
            update={"row": step.row.model_copy(update={"title": POISON, "summary": POISON}), "agents": (POISON,)}
        )
        for step in story.steps
    )
    gate = {"open": False, "reasons": [POISON], "notes": [POISON]}
    asked = {"text": POISON, "choices": [POISON]}
    return story.model_copy(
        update={
            "row": story.row.model_copy(update={"title": POISON}),
            "document": story.document | {"reason": POISON, "subject": POISON, "gate": gate} | {"decision": asked},
            "checks": checks,
            "findings": findings,
            "decisions": (decision,),
            "steps": steps[:5],
            "talks": tuple(talk.model_copy(update={"moments": moments}) for talk in story.talks),
            "patch": cut(f"diff --git a/{POISON} b/x\n--- a/x\n+++ b/{POISON}\n@@ -1 +1 @@ {POISON}\n-{POISON}\n+a"),
            "prompts": (Prompt(name=POISON, digest="0"),),
        }
    )


async def test_a_log_of_a_megabyte_is_shown_by_its_end(story: Story, tmp_path: Path) -> None:
    from resolvent.receipts.story import _checked

    log = tmp_path / "log"
    log.write_bytes(b"start\n" + b"\x1b[1mx\xff\n" * 200_000 + b"the end\n")
    item = story.checks[0].runs[0].evidence.model_copy(update={"log": str(log)})
    (checked,) = _checked([item], {})
    assert checked.runs[0].cut and checked.runs[0].log.endswith("the end\n")
    assert len(checked.runs[0].log) <= LOG_BYTES
    gone = item.model_copy(update={"log": str(tmp_path / "gone"), "tail": "what is on record"})
    assert _checked([gone], {})[0].runs[0].log == "what is on record"


def test_a_patch_is_cut_by_file_and_says_what_it_leaves_out() -> None:
    big = "diff --git a/big b/big\n--- a/big\n+++ b/big\n@@ -0,0 +1,9 @@\n" + "+line\n" * (MOST_LINES + 7)
    other = 'diff --git "a/\\303\\274" "b/\\303\\274"\n--- "a/\\303\\274"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n'
    moved = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n"
    files = cut(big + other + moved).files
    assert [file.name for file in files] == ["big", "\\303\\274", "new"]
    assert (files[0].added, len(files[0].lines), files[0].left_out) == (MOST_LINES + 7, MOST_LINES, 8)
    assert [(line.kind, line.text) for line in files[1].lines] == [("place", "@@ -1 +0,0 @@"), ("removed", "-x")]
    assert [line.text for line in files[2].lines] == ["similarity index 100%", "rename from old", "rename to new"]
    assert cut("").files == ()
    assert sum(len(file.lines) for file in cut(big * 40).files) == MOST_IN_ALL
    assert cut(other * 250).left_out == 50
