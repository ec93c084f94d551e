"""What holds for every file: no change is no hit, an assert less is one, and nothing makes the rules fall over."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.domain.integrity_tables import rules

from resolvent.domain.integrity import Altered, inspected
from resolvent.domain.integrity import tests_added as added_tests

PATHS = [
    "tests/test_a.py", "src/a.py", "tests/conftest.py", "a.test.ts", "src/a.js", "a_test.go", "src/a.rs", "ATest.java",
    "a.kt", "tests/a.bats", "tests/test_a.sh", "bin/a.sh", ".github/workflows/ci.yml", "pyproject.toml", "Makefile",
    "package.json", "tests/fixtures/a.json", "README.md", ".coveragerc", "tsconfig.json",
]  # fmt: skip
PIECES = [
    "def test_a():\n", "    assert f(1) == 2\n", "class T:\n", "@pytest.mark.skip\n", "it('a', () => {",
    "expect(a).toBe(1)", "});",
    "func TestA(t *testing.T) {", "t.Skip()", "#[test]", "fn a() {", "@Test void a() {", "}", "{", "(", ")", "[",
    "]", "'", '"', "`", "/*", "*/", "//", "#", "\\", "\n", "\t", "if ", "try:\n", "catch (e) {", "|| true", "\0", "é",
    "=", ":", ",", '@test "a" {', "r#\"", "'a", "${", "import x  # noqa\n", "fail_under = 9\n",
    "run: pytest\n", "lambda",
]  # fmt: skip
SOME = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=200)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAME = st.sampled_from(["total", "split", "rest"])
VALUE = st.integers(0, 99) | st.sampled_from(["'a'", "[1, 2]", "None", "True"])
FORM = st.sampled_from(
    ["assert {name}({given}) == {want}", "assert {name}({given}) is {want}", "assert {name}({given}) != {want}",
     "assert {name}({given})", "assert {want} in {name}({given})", "self.assertEqual({name}({given}), {want})",
     "got = {name}({given})\n    assert got == {want}", "with pytest.raises(ValueError):\n        {name}({given})"]
)  # fmt: skip
LINE = st.builds(
    lambda form, name, given, want: form.format(name=name, given=given, want=want),
    FORM, NAME, st.integers(0, 9999), VALUE,
)  # fmt: skip


def module(lines: list[str]) -> str:
    return "def test_it(self):\n    start()\n" + "".join(f"    {line}\n" for line in lines)


@QUIET
@given(st.sampled_from(PATHS), SOME)
def test_a_file_that_stays_as_it_is_gives_no_hit(path: str, text: str) -> None:
    assert inspected([Altered(path=path, old=text, new=text)]) == ()


@QUIET
@given(st.sampled_from(PATHS), SOME | st.none(), SOME | st.none())
def test_no_text_makes_the_rules_fall_over(path: str, old: str | None, new: str | None) -> None:
    file = Altered(path=path, old=old, new=new)
    assert all(hit.path == path and hit.line >= 1 and hit.text.endswith(".") for hit in inspected([file]))
    added_tests([file])


@QUIET
@given(st.lists(LINE, min_size=1, max_size=6), st.integers(0, 5))
def test_a_comment_or_a_blank_line_more_gives_no_hit(lines: list[str], at: int) -> None:
    place = at % (len(lines) + 1)
    more = [*lines[:place], "# said why\n\n", *lines[place:]]
    assert rules(Altered(path="tests/test_a.py", old=module(lines), new=module(more))) == []


@QUIET
@given(st.lists(LINE, min_size=1, max_size=6, unique=True), st.integers(0, 5))
def test_any_assert_less_is_a_hit(lines: list[str], at: int) -> None:
    left = [line for place, line in enumerate(lines) if place != at % len(lines)]
    assert rules(Altered(path="tests/test_a.py", old=module(lines), new=module(left))) != []


@QUIET
@given(st.lists(LINE, min_size=1, max_size=4), LINE)
def test_any_assert_more_is_none(lines: list[str], line: str) -> None:
    assert rules(Altered(path="tests/test_a.py", old=module(lines), new=module([*lines, line]))) == []


READABLE = "def test_a():\n    assert f(1) == 2\n"


@pytest.mark.parametrize(
    "new",
    [
        READABLE + "#" * (1 << 20), READABLE + "\n" * 100_000, READABLE + "\0", READABLE + "x = " + "(" * 5000,
        READABLE + "x = " + "-" * 20_000 + "1", READABLE + "x = " + "+".join("1" * 20_000),
        READABLE + "x = a" + ".b" * 20_000, "\n".join(" " * n + "if x:" for n in range(99)) + "\n" + " " * 99 + "pass",
    ],
    ids=["too large", "too many lines", "no text", "brackets", "signs", "a sum", "attributes", "blocks"],
)  # fmt: skip
def test_a_test_file_that_nobody_can_read_any_more_is_a_hit(new: str) -> None:
    assert rules(Altered(path="tests/test_a.py", old=READABLE, new=new)) == ["unparsable-test"]
    assert rules(Altered(path="src/a.py", old=READABLE, new=new)) == []


def test_a_test_in_another_language_that_is_too_large_is_a_hit() -> None:
    old = "it('a', () => { expect(f()).toBe(1); });"
    assert rules(Altered(path="a.test.js", old=old, new=old + " " * (1 << 20))) == ["unparsable-test"]


@pytest.mark.parametrize(
    ("path", "piece"),
    [
        ("tests/test_a.py", "def test_a():\n    assert f(1) == 2\n"),
        ("tests/test_a.py", "    assert f(1) == 2\n"),
        ("tests/test_a.py", "for a in [1, 2, 3]:\n"),
        ("a.test.js", "expect(a).toBe(1);"),
        ("a.test.js", "it('a', () => {"),
        ("a.test.js", "if (a) "),
        ("a.test.js", "`'\"/*"),
        ("a_test.go", "func TestA(t *testing.T) { if a != 1 { t.Fatal() } }\n"),
        ("src/a.rs", "#[test] fn a() { assert!(b) }\n"),
        ("ATest.java", "@Test void a() { assertEquals(1, b); }\n"),
        ("tests/a.sh", "[ \"$a\" = 1 ] || exit 1\n"),
        ("pyproject.toml", "ignore = ['a', \"b\"]  # c\n"),
        ("Makefile", "\tpytest -k 'not a' || true ; "),
        (".github/workflows/a.yml", "- run: ./scripts/test" + "-" * 50),
    ],
)  # fmt: skip
def test_twice_the_text_takes_about_twice_the_time(path: str, piece: str) -> None:
    def seconds(size: int) -> float:
        many = piece * (size // len(piece))
        started = time.process_time()
        inspected([Altered(path=path, old=many, new=many.replace("1", "2").replace("a", "b"))])
        return time.process_time() - started

    small, large = seconds(10_000), seconds(40_000)
    # Four times the text: quadratic work would take sixteen times as long.
    assert large < 9 * small + 0.5


def test_the_same_rule_does_not_fill_pages() -> None:
    old = "".join(f"def test_{n}():\n    assert f({n}) == {n}\n" for n in range(500))
    assert len(inspected([Altered(path="tests/test_a.py", old=old, new="")])) == 20
