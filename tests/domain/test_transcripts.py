"""Transcripts that attack the parser: whatever stands around a verdict, it is read as it is or not at all."""

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from resolvent.domain.change import Expect, File, Reproducer
from resolvent.domain.job import Reply
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Analysis, Claim, Design, Fix, Implementation, Review, Triage, Verification
from resolvent.engine.answers import CLAIM, DESIGN, TRIAGE, grammar, parse
from resolvent.engine.forms import SHAPES
from resolvent.engine.transcript import clean
from resolvent.errors import MalformedAnswer

MODELS = (Analysis, Implementation, Fix, Review, Verification)
MARKERS = sorted({marker for shape in SHAPES.values() for marker in shape.markers})
FIELDS = ("PR_URL", "PR_NUMBER", "PR_HEAD_BRANCH", "LOCAL_COMMIT", "RETRY_PUSH_BRANCH", "REASON")
FENCES = ("```", "```json", "~~~", "````", "   ```", "```\r", "~~~text")
ANSI = ("\x1b[0m", "\x1b[1;31m", "\x1b]0;a title\x07", "\x1b(B", "\x1b[2K")

settings.register_profile(
    "transcripts", deadline=None, database=None, phases=(Phase.explicit, Phase.generate, Phase.shrink)
)
settings.load_profile("transcripts")

DECORATED = ("> {}", "  {}", "\t{}", "- {}", "`{}`", "{}.", "a {}", "{} b", "{}{}", "| {}", "# {}", '"{}"', "+{}")
PLAIN = (
    "",
    "\r",
    "REASON=x",
    "$ cat NO_P0_P1",
    "- Severity: P0",
    "reproducer:",
    "root_cause: x",
    "\x00",
    "\x1b",
    "\u2028",
)
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
hostile = st.one_of(
    st.builds(lambda form, marker: form.format(marker, marker), st.sampled_from(DECORATED), st.sampled_from(MARKERS)),
    st.sampled_from(FENCES),
    st.sampled_from([line for model in MODELS for line in grammar(model).splitlines()]),
    st.sampled_from(PLAIN),
    st.sampled_from([f"{code}noise{code}" for code in ANSI]),
    st.text(characters, max_size=8),
).filter(lambda line: clean(line).rstrip(" \t\r") not in MARKERS)
noise = st.lists(hostile, max_size=8).map("\n".join)
unfenced = st.lists(hostile.filter(lambda line: not clean(line).lstrip(" ").startswith(("```", "~~~"))), max_size=8)

KEYS = {*(key.lower() for key in (*DESIGN, *CLAIM, *TRIAGE)), "reproducer", "severity", "finding", "fix guidance"}
WORDS = (
    "a",
    "é",
    "漢字",
    "x=1",
    "[0]",
    "NO_P0_P1",
    "BEGIN_TRIAGE",
    "`code`",
    "\u200d",
    "\\n",
    "{",
    "P0:",
    "|",
    "END",
    "VERDICT=",
)


def plain(line: str) -> bool:
    """A line that is no key, item, fence, marker or placeholder, so that it means itself inside a value."""
    key = line.partition(":")[0].strip().lower()
    return key not in KEYS and line not in MARKERS and not line.startswith(tuple("-*+#<`~0123456789"))


words = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=3)
lines = st.lists(words, min_size=1, max_size=3).map(" ".join).filter(plain)
values = st.lists(lines, min_size=1, max_size=2).map("\n".join)
files = st.builds(
    File, path=st.sampled_from(["a.py", "b/c.txt"]), text=st.sampled_from(["", "```\nEND_TRIAGE\n", "\x7f"])
)
reproducers = st.builds(
    Reproducer,
    command=st.sampled_from(["pytest -k x", "exit 1", "printf '```\\nNO_P0_P1\\n'", "a\tb \x1f é"]),
    files=st.lists(files, max_size=2, unique_by=lambda file: file.path).map(tuple),
    expect=st.builds(Expect, exit=st.none() | st.integers(1, 255), test_id=st.none() | words),
    timeout_s=st.floats(1, 7200),
)
ways = st.one_of(
    st.just({}),
    st.builds(lambda one: {"reproducer": one}, reproducers),
    st.builds(lambda one: {"no_reproducer": one}, lines),
)
designs = st.builds(
    Design,
    root_cause=values,
    severity=st.sampled_from(["P0", "P1", "P2", "feature", "enhancement"]),
    approach=values,
    test_strategy=values,
    risks=values | st.just(""),
    alternatives_rejected=st.just(""),
)
analyses = st.one_of(
    st.builds(lambda design, way: Analysis(verdict="NEED_FIX", design=design, **way), designs, ways),
    st.builds(lambda text, way: Analysis(verdict="VALID", suggestion=text, **way), values, ways),
    st.builds(lambda why: Analysis(verdict="NO_ACTION_NEEDED", reason=why), lines),
    st.builds(lambda why: Analysis(verdict="INVALID", reason=why), lines | st.just("")),
)
claims = st.builds(
    lambda severity, texts, way: Claim(severity=severity, **texts, **way),
    st.sampled_from(["P0", "P1"]),
    st.fixed_dictionaries({key.lower().replace(" ", "_"): values for key in CLAIM}),
    ways,
)
reviews = st.lists(claims, max_size=2).map(
    lambda found: Review(verdict="P0_P1_FINDINGS" if found else "NO_P0_P1", claims=tuple(found))
)


@st.composite
def verifications(draw: st.DrawFn) -> Verification:
    triage = []
    for number in range(draw(st.integers(0, 3))):
        scope = draw(st.sampled_from(["FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED"]))
        triage.append(
            Triage(
                finding=f"F{number}",
                valid=scope != "INVALID_OR_ALREADY_FIXED",
                origin=draw(st.sampled_from(["introduced", "pre_existing", "unknown"])),
                difficulty=draw(st.sampled_from(["S", "M", "L"])),
                risk=draw(st.sampled_from(["low", "med", "high"])),
                scope=scope,
                rationale=draw(values),
            )
        )
    triage.sort(key=lambda item: item.scope != "FIX_IN_THIS_PR")
    some = any(item.scope == "FIX_IN_THIS_PR" for item in triage)
    return Verification(verdict="IN_SCOPE_P0_P1" if some else "NO_IN_SCOPE_P0_P1", triage=tuple(triage))


def indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def way_lines(said: Analysis | Claim, dash: str) -> list[str]:
    if said.reproducer:
        return [f"{dash}reproducer:", "```json", json.dumps(said.reproducer.model_dump(), indent=1), "```"]
    return [f"{dash}reproducer: none {said.no_reproducer}"] if said.no_reproducer else []


def printed(said: Value) -> str:
    """A verdict as an agent that follows the grammar prints it."""
    match said:
        case Analysis(design=Design() as design):
            keys = [f"{key}: {indented(value)}" for key, value in design]
            out = ["BEGIN_SOLUTION_DESIGN", *keys, *way_lines(said, ""), "END_SOLUTION_DESIGN"]
            return "\n".join((f"VERDICT={said.verdict}", *out))
        case Analysis(verdict="VALID"):
            out = ["BEGIN_SOLUTION_SUGGESTION", said.suggestion, *way_lines(said, ""), "END_SOLUTION_SUGGESTION"]
            return "\n".join(("VERDICT=VALID", *out))
        case Analysis():
            return f"VERDICT={said.verdict}\nREASON={said.reason}".removesuffix("\nREASON=")
        case Review(claims=()):
            return said.verdict
        case Review():
            return f"{OPENED}{chr(10).join(map(claimed, said.claims))}\nEND_P0_P1_FINDINGS"
        case Verification():
            here = [placed(item) for item in said.triage if item.scope == "FIX_IN_THIS_PR"]
            rest = [placed(item) for item in said.triage if item.scope != "FIX_IN_THIS_PR"]
            first = ["BEGIN_TRIAGE", *rest, "END_TRIAGE"] if rest else []
            last = ["BEGIN_IN_SCOPE_P0_P1", *here, "END_IN_SCOPE_P0_P1"] if here else []
            return "\n".join((*first, said.verdict, *last))
    raise TypeError(said)


def claimed(claim: Claim) -> str:
    keys = [f"- {key}: {indented(getattr(claim, key.lower().replace(' ', '_')))}" for key in CLAIM]
    return "\n".join((f"- Severity: {claim.severity}", *keys, *way_lines(claim, "- ")))


def placed(item: Triage) -> str:
    said = ("valid" if item.valid else "invalid", item.origin.replace("_", "-"), item.difficulty, item.risk)
    keys = zip(TRIAGE, (*said, item.scope, indented(item.rationale)), strict=True)
    return "\n".join((f"- Finding: {item.finding}", *(f"  {key}: {value}" for key, value in keys)))


OPENED = "P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n"
UNPUSHED = "GH_AUTH_EXPIRED\nLOCAL_COMMIT=abc\nRETRY_PUSH_BRANCH=b"
MADE = "IMPLEMENTATION_SUCCESS\nPR_URL=https://x/7\nPR_NUMBER=7\nPR_HEAD_BRANCH=b"
BLOCKED = "IMPLEMENTATION_BLOCKED\nREASON=no"
of_model: dict[type[Value], st.SearchStrategy[str]] = {
    Analysis: analyses.map(printed),
    Review: reviews.map(printed),
    Verification: verifications().map(printed),
    Implementation: st.sampled_from(["IMPLEMENTATION_SUCCESS", MADE, UNPUSHED, BLOCKED]),
    Fix: st.sampled_from(["FIX_SUCCESS", UNPUSHED]),
}
verdicts = st.one_of(*(st.tuples(st.just(model), made) for model, made in of_model.items()))
with_block = st.one_of(
    st.tuples(st.just(Analysis), designs.map(lambda design: printed(Analysis(verdict="NEED_FIX", design=design)))),
    st.tuples(st.just(Review), claims.map(lambda one: printed(Review(verdict="P0_P1_FINDINGS", claims=(one,))))),
)


def malformed(model: type[Value], text: str) -> bool:
    try:
        parse(model, Reply(text=text))
    except MalformedAnswer as error:
        assert error.message and "\n" not in error.message
        return True
    return False


@pytest.mark.conforms("S0.10", "S1.7", "S1.8")
@given(said=analyses)
def test_an_analysis_that_is_printed_and_read_is_the_same(said: Analysis) -> None:
    assert parse(Analysis, Reply(text=printed(said))) == said


@pytest.mark.conforms("S0.18", "S0.19")
@given(said=reviews)
def test_a_review_that_is_printed_and_read_is_the_same(said: Review) -> None:
    assert parse(Review, Reply(text=printed(said))) == said


@pytest.mark.conforms("S0.24", "S0.29")
@given(said=verifications())
def test_a_verification_that_is_printed_and_read_is_the_same(said: Verification) -> None:
    assert parse(Verification, Reply(text=printed(said))) == said


@given(verdict=verdicts, above=noise)
def test_noise_above_a_verdict_never_changes_it(verdict: tuple[type[Value], str], above: str) -> None:
    model, text = verdict
    assert parse(model, Reply(text=f"{above}\n{text}")) == parse(model, Reply(text=text))


@given(verdict=verdicts, issue=st.lists(st.sampled_from([*MARKERS, "some words", "```"]), max_size=6))
def test_a_prompt_echoed_with_a_quoted_issue_that_holds_markers_changes_nothing(
    verdict: tuple[type[Value], str], issue: list[str]
) -> None:
    model, text = verdict
    quoted = "\n".join(f"| {line}" for line in issue)
    echo = f"# Task\n{quoted}\n{grammar(model)}\n"
    assert parse(model, Reply(text=f"{echo}\n{text}")) == parse(model, Reply(text=text))
    assert malformed(model, echo)


@given(
    verdict=verdicts,
    ends=st.lists(st.sampled_from(["\n", "\r\n", " \n", "\t\r\n"]), min_size=1, max_size=4),
    code=st.sampled_from(ANSI),
)
def test_line_ends_colours_and_spaces_behind_a_line_mean_nothing(
    verdict: tuple[type[Value], str], ends: list[str], code: str
) -> None:
    model, text = verdict
    for dressed in (
        "".join(line + ends[at % len(ends)] for at, line in enumerate(text.split("\n"))),
        "".join(f"{code}{line}{code}\n" for line in text.split("\n")) + "\n \n",
    ):
        assert parse(model, Reply(text=dressed)) == parse(model, Reply(text=text))


@pytest.mark.spec("W3")
@given(verdict=verdicts, above=noise, below=hostile)
def test_a_transcript_whose_last_line_is_no_part_of_a_verdict_never_parses(
    verdict: tuple[type[Value], str], above: str, below: str
) -> None:
    model, text = verdict
    last = clean(below).rstrip()
    assume(last and last.partition("=")[0] not in FIELDS)
    assert malformed(model, f"{above}\n{text}\n{below}")
    assert malformed(model, f"{above}\n{below}")


@pytest.mark.spec("W3")
@given(data=st.data(), between=unfenced)
def test_two_different_verdicts_never_parse(data: st.DataObject, between: list[str]) -> None:
    model, one = data.draw(verdicts)
    other = data.draw(of_model[model])
    assume(parse(model, Reply(text=one)) != parse(model, Reply(text=other)))
    pair = "\n".join((one, *between, other))
    assert malformed(model, pair)
    assert malformed(model, f"~~~~~\n{pair}")


@given(verdict=verdicts, between=unfenced)
def test_a_verdict_repeated_word_for_word_is_one_verdict(verdict: tuple[type[Value], str], between: list[str]) -> None:
    model, text = verdict
    twice = "\n".join((text, "so again:", *between, text))
    assert parse(model, Reply(text=twice)) == parse(model, Reply(text=text))


@pytest.mark.spec("W2")
@given(verdict=verdicts, fence=st.sampled_from(["```", "~~~", "`````"]), above=noise)
def test_a_verdict_that_is_fenced_indented_or_quoted_as_a_whole_never_parses(
    verdict: tuple[type[Value], str], fence: str, above: str
) -> None:
    model, text = verdict
    assert malformed(model, f"{above}\n{fence}\n{text}\n{fence}")
    for prefix in (" ", "\t", "> ", "| ", "\u00a0", "\ufeff"):
        assert malformed(model, "\n".join((above, *(prefix + line for line in text.split("\n")))))


@pytest.mark.spec("W2")
@given(verdict=verdicts, data=st.data())
def test_a_fenced_verdict_above_the_real_one_does_not_count(
    verdict: tuple[type[Value], str], data: st.DataObject
) -> None:
    model, text = verdict
    other = data.draw(of_model[model])
    shown = f"This file holds markers:\n````text\n{other}\n````\n"
    assert parse(model, Reply(text=f"{shown}{text}")) == parse(model, Reply(text=text))
    assert malformed(model, shown)


@given(verdict=with_block, at=st.integers(0, 40), data=st.data())
def test_a_block_that_holds_a_marker_of_its_step_never_parses(
    verdict: tuple[type[Value], str], at: int, data: st.DataObject
) -> None:
    model, text = verdict
    lines = text.split("\n")
    lines.insert(2 + at % (len(lines) - 2), data.draw(st.sampled_from(sorted(SHAPES[model].markers))))
    assert malformed(model, "\n".join(lines))


@pytest.mark.spec("W3")
@given(verdict=with_block, data=st.data())
def test_a_verdict_that_lost_its_end_never_parses(verdict: tuple[type[Value], str], data: st.DataObject) -> None:
    model, text = verdict
    lines = text.split("\n")
    assert malformed(model, "\n".join(lines[: data.draw(st.integers(1, len(lines) - 1))]))


PIECES = (
    *MARKERS,
    *FENCES,
    *("- Severity: P0", "- Finding: F1", "Description: x", "Code evidence: x", "Reachability: x", "Blast radius: x"),
    *("root_cause: x", "severity: P1", "approach: x", "reproducer:", "reproducer: none x", "Scope: FIX_IN_THIS_PR"),
    *(f"{name}=1" for name in FIELDS),
    *('{"command": "x"}', "", "  indented", "\0", "\x1b[1m"),
)
pieces = st.lists(st.sampled_from(PIECES) | st.text(characters, max_size=6), max_size=12)


@settings(max_examples=400)
@given(model=st.sampled_from(MODELS), parts=pieces)
def test_any_pile_of_lines_is_read_or_refused_and_what_is_read_stands_last(
    model: type[Value], parts: list[str]
) -> None:
    text = "\n".join(parts)
    if not malformed(model, text):
        last = clean(text).rstrip().rpartition("\n")[2]
        assert last in SHAPES[model].markers or last.partition("=")[0] in FIELDS


@given(model=st.sampled_from(MODELS), text=st.text(), answer=st.none() | st.text())
def test_any_text_is_refused_and_never_breaks_anything(model: type[Value], text: str, answer: str | None) -> None:
    with pytest.raises(MalformedAnswer):
        parse(model, Reply(text=text, answer=answer))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["NO_P0_P1", "FIX_SUCCESS"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["verdict", "mode", "claims", "triage", "reason"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(model=st.sampled_from(MODELS), value=json_values)
def test_any_json_is_read_as_it_is_or_refused(model: type[Value], value: object) -> None:
    try:
        said = parse(model, Reply(text="", answer=json.dumps(value)))
    except MalformedAnswer:
        return
    assert isinstance(value, dict)
    assert said.model_dump(mode="json", include=set(value)) == value


MB10 = 10_000_000
FLOODS: dict[str, Callable[[], str]] = {
    "lines": lambda: "lorem ipsum dolor sit amet\n" * (MB10 // 27),
    "one line": lambda: "x" * MB10 + "\n",
    "blank lines": lambda: "\n" * MB10,
    "the same verdict": lambda: "NO_P0_P1\n" * (MB10 // 9),
    "the token in a line": lambda: "NO_P0_P1 " * (MB10 // 9) + "\n",
    "colours": lambda: "\x1b[31mred\x1b[0m " * (MB10 // 13) + "\n",
    "unfinished sequences": lambda: "\x1b[1\x1b]" * (MB10 // 5) + "\n",
    "fences": lambda: "```\n~~~a\n" * (MB10 // 9),
    "fenced other verdicts": lambda: "```\nP0_P1_FINDINGS\n```\n" * (MB10 // 23),
    "spaces": lambda: " " * MB10 + "\n",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_ten_megabytes_above_a_verdict_are_read_at_once(flood: str) -> None:
    reply = Reply(text=f"{FLOODS[flood]()}NO_P0_P1\n")
    began = time.process_time()
    assert parse(Review, reply).verdict == "NO_P0_P1"
    assert time.process_time() - began < 5


HUGE: dict[str, Callable[[], str]] = {
    "a block without end": lambda: "BEGIN_P0_P1_FINDINGS\n" + "x\n" * (MB10 // 2),
    "a block of everything": lambda: f"{OPENED}{'x' + chr(10)}" * (MB10 // 40) + "END_P0_P1_FINDINGS",
    "a block too long": lambda: OPENED + "x\n" * (MB10 // 2) + "END_P0_P1_FINDINGS",
    "many beginnings": lambda: f"{OPENED}```\n" * (MB10 // 40) + "END_P0_P1_FINDINGS",
    "many items": lambda: OPENED + "- Severity: P0\n" * 60_000 + "END_P0_P1_FINDINGS",
    "a wide block": lambda: OPENED + " " * 1_000_000 + "\nEND_P0_P1_FINDINGS",
}


@pytest.mark.parametrize("huge", HUGE)
def test_ten_megabytes_that_do_not_fit_are_refused_at_once(huge: str) -> None:
    text = HUGE[huge]()
    began = time.process_time()
    assert malformed(Review, text)
    assert time.process_time() - began < 5
