"""Transcripts that attack the parser: whatever stands around a verdict, it is read as it is or not at all."""

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
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

settings.register_profile("domain", deadline=None, database=None)
settings.load_profile("domain")

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
decorated = st.sampled_from(
    ["> {}", "  {}", "\t{}", "- {}", "`{}`", "{}.", "a {}", "{} b", "{}{}", "| {}", "# {}", '"{}"']
)
hostile = st.one_of(
    st.builds(lambda form, marker: form.format(marker, marker), decorated, st.sampled_from(MARKERS)),
    st.sampled_from(["\n".join(("```", marker, "```")) for marker in MARKERS]),
    st.sampled_from(FENCES),
    st.sampled_from([line for model in MODELS for line in grammar(model).splitlines()]),
    st.sampled_from(
        ["- Severity: P0", "reproducer:", "root_cause: x", "REASON=x", "$ cat NO_P0_P1", "", "\r", "+NO_P0_P1"]
    ),
    st.sampled_from([f"{code}noise{code}" for code in ANSI]),
)
noise_lines = st.lists(st.one_of(st.text(characters, max_size=40), hostile), max_size=12)


def holds_no_token(lines: list[str]) -> bool:
    """No line outside of what is fenced on purpose is a marker, or opens a fence that could hide one."""
    loose = [line for line in lines if not (line.startswith("```\n") and line.endswith("\n```"))]
    return not any(clean(line).rstrip(" \t\r") in MARKERS for line in loose)


# A fence of the noise may pair with the opening of a fenced token and so set it free: that noise holds a token then.
def balanced(lines: list[str]) -> bool:
    stray = any(clean(line).lstrip(" ").startswith(("```", "~~~")) and "\n" not in line for line in lines)
    return not (stray and any("\n" in line for line in lines))


noise = noise_lines.filter(lambda lines: holds_no_token(lines) and balanced(lines)).map("\n".join)

words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
KEYS = {*(key.lower() for key in (*DESIGN, *CLAIM, *TRIAGE)), "reproducer", "severity", "finding", "fix guidance"}


def plain(line: str) -> bool:
    key = line.strip().removeprefix("-").partition(":")[0].strip().lower().replace("_", " ")
    return (
        key not in {name.replace("_", " ") for name in KEYS}
        and not line.startswith(("-", "*", "+", "#", "```", "~~~", "<", "none"))
        and not line[0].isdigit()
        and line not in MARKERS
    )


lines = st.lists(words, min_size=1, max_size=6).map(" ".join).filter(plain)
values = st.lists(lines, min_size=1, max_size=3).map("\n".join)
reproducers = st.builds(
    Reproducer,
    command=st.text(characters.filter(lambda one: one != "\0"), min_size=1, max_size=40).filter(str.strip),
    files=st.lists(
        st.builds(
            File, path=st.from_regex(r"[a-z]{3,8}\.py", fullmatch=True), text=st.text(characters.filter(str.strip))
        ),
        max_size=2,
        unique_by=lambda file: file.path,
    ).map(tuple),
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
    test_strategy=values | st.just(""),
    risks=values | st.just(""),
    alternatives_rejected=values | st.just(""),
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
reviews = st.lists(claims, max_size=3).map(
    lambda found: Review(verdict="P0_P1_FINDINGS" if found else "NO_P0_P1", claims=tuple(found))
)


@st.composite
def verifications(draw: st.DrawFn) -> Verification:
    triage = []
    for number in range(draw(st.integers(0, 4))):
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
        shown = json.dumps(said.reproducer.model_dump(), indent=1)
        return [f"{dash}reproducer:", "```json", *shown.split("\n"), "```"]
    return [f"{dash}reproducer: none {said.no_reproducer}"] if said.no_reproducer else []


def printed(said: Value) -> str:
    """A verdict as an agent that follows the grammar prints it."""
    out: list[str] = []
    match said:
        case Analysis(verdict=verdict):
            out = [f"VERDICT={verdict}"]
            if said.design:
                keys = [f"{key}: {indented(value)}" for key, value in said.design]
                out += ["BEGIN_SOLUTION_DESIGN", *keys, *way_lines(said, ""), "END_SOLUTION_DESIGN"]
            elif said.suggestion:
                text = [*said.suggestion.split("\n"), *way_lines(said, "")]
                out += ["BEGIN_SOLUTION_SUGGESTION", *text, "END_SOLUTION_SUGGESTION"]
            elif said.reason:
                out.append(f"REASON={said.reason}")
        case Review(verdict=verdict):
            out = [verdict]
            if said.claims:
                out.append("BEGIN_P0_P1_FINDINGS")
                for claim in said.claims:
                    out.append(f"- Severity: {claim.severity}")
                    out += [f"- {key}: {indented(getattr(claim, key.lower().replace(' ', '_')))}" for key in CLAIM]
                    out += way_lines(claim, "- ")
                out.append("END_P0_P1_FINDINGS")
        case Verification(verdict=verdict):
            rest = [item for item in said.triage if item.scope != "FIX_IN_THIS_PR"]
            if rest:
                out += ["BEGIN_TRIAGE", *map(placed, rest), "END_TRIAGE"]
            out.append(verdict)
            if len(rest) < len(said.triage):
                first = said.triage[: len(said.triage) - len(rest)]
                out += ["BEGIN_IN_SCOPE_P0_P1", *map(placed, first), "END_IN_SCOPE_P0_P1"]
    return "\n".join(out)


def placed(item: Triage) -> str:
    validity = "valid" if item.valid else "invalid"
    origin = item.origin.replace("_", "-")
    keys = (validity, origin, item.difficulty, item.risk, item.scope, indented(item.rationale))
    return "\n".join(
        (f"- Finding: {item.finding}", *(f"  {key}: {value}" for key, value in zip(TRIAGE, keys, strict=True)))
    )


verdicts = st.one_of(
    *(st.tuples(st.just(model), made.map(printed)) for model, made in ((Analysis, analyses), (Review, reviews))),
    st.tuples(st.just(Verification), verifications().map(printed)),
    st.tuples(
        st.just(Implementation),
        st.sampled_from(
            [
                "IMPLEMENTATION_SUCCESS",
                "IMPLEMENTATION_SUCCESS\nPR_URL=https://x/7\nPR_NUMBER=7\nPR_HEAD_BRANCH=b",
                "GH_AUTH_EXPIRED\nLOCAL_COMMIT=abc\nRETRY_PUSH_BRANCH=b",
                "IMPLEMENTATION_BLOCKED\nREASON=no",
            ]
        ),
    ),
    st.tuples(st.just(Fix), st.sampled_from(["FIX_SUCCESS", "GH_AUTH_EXPIRED\nLOCAL_COMMIT=abc\nRETRY_PUSH_BRANCH=b"])),
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
    ends=st.lists(st.sampled_from(["\n", "\r\n", " \n", "\t\r\n"]), min_size=1),
    code=st.sampled_from(ANSI),
)
def test_line_ends_colours_and_spaces_behind_a_line_mean_nothing(
    verdict: tuple[type[Value], str], ends: list[str], code: str
) -> None:
    model, text = verdict
    assume("\r" not in text)
    for dressed in (
        "".join(line + ends[at % len(ends)] for at, line in enumerate(text.split("\n"))),
        "".join(f"{code}{line}{code}\n" for line in text.split("\n")) + "\n \n",
    ):
        assert parse(model, Reply(text=dressed)) == parse(model, Reply(text=text))


@given(verdict=verdicts, above=noise, below=st.one_of(st.text(characters, min_size=1), hostile))
def test_a_transcript_whose_last_line_is_no_part_of_a_verdict_never_parses(
    verdict: tuple[type[Value], str], above: str, below: str
) -> None:
    model, text = verdict
    last = clean(below).rstrip().rpartition("\n")[2]
    assume(last and last not in MARKERS and last.partition("=")[0] not in FIELDS)
    assert malformed(model, f"{above}\n{text}\n{below}")
    assert malformed(model, f"{above}\n{below}")


@given(data=st.data(), between=noise)
def test_two_different_verdicts_never_parse(data: st.DataObject, between: str) -> None:
    model, one = data.draw(verdicts)
    other = data.draw(verdicts.filter(lambda verdict: verdict[0] is model))[1]
    assume(parse(model, Reply(text=one)) != parse(model, Reply(text=other)))
    between = "\n".join(line for line in between.split("\n") if not clean(line).lstrip(" ").startswith(("```", "~~~")))
    assume(holds_no_token(between.split("\n")))
    assert malformed(model, f"{one}\n{between}\n{other}")
    assert malformed(model, f"```\n{one}\n{between}\n{other}")


@given(verdict=verdicts, between=noise)
def test_a_verdict_repeated_word_for_word_is_one_verdict(verdict: tuple[type[Value], str], between: str) -> None:
    model, text = verdict
    assert parse(model, Reply(text=f"{text}\n{between}\n{text}")) == parse(model, Reply(text=text))


@given(verdict=verdicts, fence=st.sampled_from(["```", "~~~", "`````"]), above=noise)
def test_a_verdict_that_is_fenced_indented_or_quoted_as_a_whole_never_parses(
    verdict: tuple[type[Value], str], fence: str, above: str
) -> None:
    model, text = verdict
    assert malformed(model, f"{above}\n{fence}\n{text}\n{fence}")
    for prefix in (" ", "\t", "> ", "| ", "\u00a0", "\ufeff"):
        assert malformed(model, "\n".join((above, *(prefix + line for line in text.split("\n")))))


@given(verdict=verdicts, data=st.data())
def test_a_fenced_verdict_above_the_real_one_does_not_count(
    verdict: tuple[type[Value], str], data: st.DataObject
) -> None:
    model, text = verdict
    other = data.draw(verdicts.filter(lambda one: one[0] is model and "```" not in one[1]))[1]
    shown = f"This file holds markers:\n```text\n{other}\n```\n"
    assert parse(model, Reply(text=f"{shown}{text}")) == parse(model, Reply(text=text))
    assert malformed(model, shown)


@given(verdict=verdicts, at=st.integers(0, 40), marker=st.sampled_from(MARKERS))
def test_a_block_that_holds_a_marker_of_its_step_never_parses(
    verdict: tuple[type[Value], str], at: int, marker: str
) -> None:
    model, text = verdict
    lines = text.split("\n")
    assume(len(lines) > 2 and marker in SHAPES[model].markers)
    lines.insert(1 + at % (len(lines) - 1), marker)
    assert malformed(model, "\n".join(lines))


@given(verdict=verdicts, data=st.data())
def test_a_verdict_that_lost_its_end_never_parses(verdict: tuple[type[Value], str], data: st.DataObject) -> None:
    model, text = verdict
    lines = text.split("\n")
    assume(lines[-1].startswith("END_"))
    assert malformed(model, "\n".join(lines[: data.draw(st.integers(1, len(lines) - 1))]))


pieces = st.one_of(
    st.sampled_from(MARKERS),
    st.sampled_from(FENCES),
    st.sampled_from(
        ["- Severity: P0", "- Finding: F1", "Description: x", "root_cause: x", "severity: P1", "approach: x"]
    ),
    st.sampled_from(["Code evidence: x", "Reachability: x", "Blast radius: x", "reproducer:", "reproducer: none x"]),
    st.sampled_from([f"{name}=1" for name in FIELDS]),
    st.sampled_from(['{"command": "x"}', "", "  indented", "\0", "\x1b[1m", "Scope: FIX_IN_THIS_PR"]),
    st.text(characters, max_size=10),
)


@settings(max_examples=400)
@given(model=st.sampled_from(MODELS), parts=st.lists(pieces, max_size=14))
def test_any_pile_of_lines_is_read_or_refused_and_what_is_read_stands_last(
    model: type[Value], parts: list[str]
) -> None:
    text = "\n".join(parts)
    if not malformed(model, text):
        last = clean(text).rstrip().rpartition("\n")[2]
        assert last in SHAPES[model].markers or last.partition("=")[0] in FIELDS


@given(model=st.sampled_from(MODELS), text=st.text(), answer=st.none() | st.text())
def test_any_text_is_read_or_refused(model: type[Value], text: str, answer: str | None) -> None:
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
    began = time.perf_counter()
    assert parse(Review, reply).verdict == "NO_P0_P1"
    assert time.perf_counter() - began < 5


HUGE: dict[str, Callable[[], str]] = {
    "a block without end": lambda: "BEGIN_P0_P1_FINDINGS\n" + "x\n" * (MB10 // 2),
    "a block of everything": lambda: (
        "P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n" + "x\n" * (MB10 // 2) + "END_P0_P1_FINDINGS"
    ),
    "many beginnings": lambda: "P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n```\n" * (MB10 // 40) + "END_P0_P1_FINDINGS",
    "many items": lambda: "P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n" + "- Severity: P0\n" * 60_000 + "END_P0_P1_FINDINGS",
    "a wide block": lambda: "P0_P1_FINDINGS\nBEGIN_P0_P1_FINDINGS\n" + " " * 1_000_000 + "\nEND_P0_P1_FINDINGS",
}


@pytest.mark.parametrize("huge", HUGE)
def test_ten_megabytes_that_do_not_fit_are_refused_at_once(huge: str) -> None:
    text = HUGE[huge]()
    began = time.perf_counter()
    assert malformed(Review, text)
    assert time.perf_counter() - began < 5
