"""Changes, checks and evidence: what one execution says, and which reproducers are refused."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from resolvent.domain.change import (
    MAX_FILE_BYTES,
    MAX_FILES,
    Change,
    Check,
    Evidence,
    Execution,
    Expect,
    File,
    Reproducer,
    agreed,
    execution_of,
    signature_of,
)


def reproducer(**expect: object) -> Check:
    return Check.reproducing(Reproducer(command="x", expect=Expect.model_validate(expect)), "reproducer")


ANY = reproducer()
TEST = Check(name="test", kind="test", command="make test")


def read(check: Check, exit: int, output: str = "", ended: bool = True) -> Execution:
    return execution_of(check, exit=exit, output=output, ended=ended)


# Executions


@pytest.mark.spec("E3")
@pytest.mark.parametrize(
    ("check", "exit", "output", "execution"),
    [
        (ANY, 0, "ok", "PASSED"),
        (ANY, 1, "boom", "SHOWN"),
        (ANY, 1, "", "SHOWN"),
        (ANY, 139, "", "SHOWN"),
        (ANY, 126, "permission denied", "BROKEN"),
        (ANY, 127, "sh: 1: pytst: not found", "BROKEN"),
        (ANY, -9, "", "BROKEN"),
        (reproducer(exit=3), 3, "", "SHOWN"),
        (reproducer(exit=3), 1, "", "BROKEN"),
        (reproducer(pattern="lost .* rows"), 1, "it lost 3 rows", "SHOWN"),
        (reproducer(pattern="lost .* rows"), 1, "it burns", "BROKEN"),
        (reproducer(test_id="t.py::test_a"), 1, "FAILED t.py::test_a - x", "SHOWN"),
        (reproducer(test_id="t.py::test_a"), 1, "FAILED t.py::test_b - x", "BROKEN"),
        (reproducer(exit=1, pattern="a", test_id="b"), 1, "a b", "SHOWN"),
        (reproducer(exit=1, pattern="a", test_id="b"), 1, "a", "BROKEN"),
        (reproducer(pattern="lost"), 0, "nothing matches and nothing has to", "PASSED"),
        (TEST, 0, "", "PASSED"),
        (TEST, 2, "", "SHOWN"),
        (TEST, 5, "no tests ran in 0.01s", "SHOWN"),
        (TEST, 127, "", "BROKEN"),
    ],
)
def test_one_execution_is_shown_passed_or_broken(check: Check, exit: int, output: str, execution: str) -> None:
    assert read(check, exit, output) == execution


@pytest.mark.spec("E3")
@pytest.mark.parametrize("exit", [0, 1, 143])
@pytest.mark.parametrize("check", [ANY, TEST])
def test_what_ran_into_a_limit_is_broken(check: Check, exit: int) -> None:
    assert read(check, exit, "FAILED", ended=False) == "BROKEN"


@pytest.mark.spec("E3")
@pytest.mark.parametrize(
    "output",
    [
        "collected 0 items\n\n=== no tests ran in 0.01s ===",
        "collected 3 items / 3 deselected / 0 selected\n",
        "3 deselected in 0.01s",
        "E   ImportError while importing test module '/r/test_a.py'.",
        "ImportError while loading conftest '/r/conftest.py'.",
        "____ ERROR collecting test_a.py ____",
        "!!!!! Interrupted: 2 errors during collection !!!!!",
        "ERROR: file or directory not found: test_a.py",
        "ERROR: not found: /r/test_a.py::test_b",
        "Ran 0 tests in 0.000s\n\nOK",
        "ERROR: test_a (unittest.loader._FailedTest.test_a)",
        "/usr/bin/python3: No module named pytest",
        "python: can't open file '/r/repro.py': [Errno 2] No such file or directory",
        "No tests found, exiting with code 1",
    ],
)
@pytest.mark.parametrize("exit", [0, 1, 2])
def test_a_runner_that_ran_nothing_has_neither_shown_nor_passed(output: str, exit: int) -> None:
    assert read(ANY, exit, f"some words\n{output}\n") == "BROKEN"
    assert read(reproducer(pattern="."), exit, output) == "BROKEN"


def test_an_import_that_failed_shows_nothing_unless_it_is_what_was_expected() -> None:
    output = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'widgets.cache'\n"
    assert read(ANY, 1, output) == "BROKEN"
    assert read(reproducer(exit=1), 1, output) == "BROKEN"
    assert read(reproducer(pattern="Traceback"), 1, output) == "BROKEN"
    assert read(reproducer(pattern=r"No module named 'widgets\.cache'"), 1, output) == "SHOWN"
    assert read(ANY, 1, f"{output}FAILED (errors=1)") == "SHOWN"


def run(directory: Path, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *argv], cwd=directory, capture_output=True, text=True, check=False, env={"PATH": "/bin"}
    )
    return done.returncode, done.stdout + done.stderr


PYTEST = ("pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".")


@pytest.mark.parametrize(
    ("source", "argv", "execution"),
    [
        ("def test_a():\n    assert 1 == 2\n", (*PYTEST, "test_it.py"), "SHOWN"),
        ("def test_a():\n    pass\n", (*PYTEST, "-q", "test_it.py"), "PASSED"),
        ("import no_such_thing\n", (*PYTEST, "-q", "test_it.py"), "BROKEN"),
        ("def test_a(:\n", (*PYTEST, "test_it.py"), "BROKEN"),
        ("x = 1\n", (*PYTEST, "test_it.py"), "BROKEN"),
        ("def test_a():\n    pass\n", (*PYTEST, "-q", "-k", "nothing", "test_it.py"), "BROKEN"),
        ("def test_a():\n    pass\n", (*PYTEST, "test_it.py::test_b"), "BROKEN"),
        ("x = 1\n", (*PYTEST, "test_other.py"), "BROKEN"),
        ("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail()\n", ("unittest",), "SHOWN"),
        ("import no_such_thing\n", ("unittest",), "BROKEN"),
        ("x = 1\n", ("unittest",), "BROKEN"),
        ("x = 1\n", ("no_such_thing",), "BROKEN"),
        ("import no_such_thing\n", ("test_it",), "BROKEN"),
        ("raise SystemExit('no')\n", ("test_it",), "SHOWN"),
    ],
)
def test_real_runners_are_read_right(tmp_path: Path, source: str, argv: tuple[str, ...], execution: str) -> None:
    (tmp_path / "test_it.py").write_text(source)
    exit, output = run(tmp_path, *argv)
    assert read(ANY, exit, output) == execution, output


@pytest.mark.spec("E3")
@pytest.mark.parametrize(
    ("executions", "together"),
    [
        (["SHOWN", "SHOWN"], "SHOWN"),
        (["PASSED", "PASSED"], "PASSED"),
        (["BROKEN"], "BROKEN"),
        (["SHOWN", "PASSED"], "FLAKY"),
        (["BROKEN", "SHOWN"], "FLAKY"),
        (["FLAKY", "FLAKY"], "FLAKY"),
    ],
)
def test_executions_that_do_not_agree_are_flaky(executions: list[Execution], together: str) -> None:
    assert agreed(executions) == together


# Signatures


def sign(output: str, exit: int = 1, check: Check = ANY) -> str:
    return signature_of(check, exit=exit, output=output)


def test_a_signature_does_not_depend_on_time_place_or_address() -> None:
    one = "FAILED /tmp/a1/t.py::test_a - KeyError: <Row at 0x7f01>\n1 failed in 0.12s\n"
    other = "FAILED /var/b2/t.py::test_a - KeyError: <Row at 0x9abc>\n1 failed in 3.50s\n"
    assert sign(one) == sign(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("FAILED t.py::test_a - KeyError\n1 failed in 0.1s", "FAILED t.py::test_b - KeyError\n1 failed in 0.1s"),
        ("E   KeyError: a\n1 failed in 0.1s", "E   ValueError: a\n1 failed in 0.1s"),
        ("FAILED t.py::a\n1 failed", "FAILED t.py::a\nFAILED t.py::b\n2 failed"),
        ("FAIL: test_a (m.T)\nFAILED (failures=1)", "FAIL: test_b (m.T)\nFAILED (failures=1)"),
        ("AssertionError: lost", "AssertionError: found"),
        ("the disk is full", "the disk is gone"),
    ],
)
def test_different_failures_have_different_signatures(one: str, other: str) -> None:
    assert sign(one) != sign(other)


def test_a_signature_is_made_of_the_lines_the_pattern_finds() -> None:
    check = reproducer(pattern="^lost")
    assert sign("noise a\nlost 3 rows\nend", check=check) == sign("noise b\nlost 4 rows\n", check=check)
    assert sign("lost rows", check=check) != sign("lost columns", check=check)
    assert sign("elsewhere", check=check) == "1:elsewhere"


def test_a_signature_tells_the_exit_and_success_has_none() -> None:
    assert sign("x", exit=1) != sign("x", exit=2)
    assert sign("Error: x", exit=0) == ""
    assert sign("", exit=1) == "1:"


@pytest.mark.parametrize("unit", ["\n", "E ", "a", "/a", "E  x/y\n", "Error ", "python: "])
@pytest.mark.parametrize("pattern", [None, "(a+)+$", "(a|a)*b", r"(\w*)*x", ".*.*.*.*.*.*zz"])
def test_no_output_and_no_pattern_keeps_the_engine_busy(unit: str, pattern: str | None) -> None:
    check, output = reproducer(pattern=pattern), unit * (1_000_000 // len(unit))
    began = time.process_time()
    read(check, 1, output)
    sign(output, check=check)
    assert time.process_time() - began < 5


# Reproducers


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "./a",
        "a//b",
        "a/",
        ".git",
        ".git/config",
        ".GIT/hooks/pre-commit",
        "sub/.git/config",
        "sub/.Git",
        "a\0b",
        "a\nb",
        "a\x1b[31mb",
        "\u202egnp.exe",
        "x" * 256,
        "é" * 128,
        "/".join(["abc"] * 1100),
    ],
)
def test_a_file_whose_path_is_hostile_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="path"):
        File(path=path, text="")


@pytest.mark.parametrize("path", ["a", "a/b.py", ".github/x", ".gitignore", "git/x", "a b/ü.py", "...", "a/..b", "-rf"])
def test_a_file_inside_the_repository_may_have_any_ordinary_name(path: str) -> None:
    assert File(path=path, text="x").path == path


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"command": ""}, "command"),
        ({"command": " \n"}, "command must hold something to run"),
        ({"command": "a\0b"}, "no NUL"),
        ({"command": "x" * 16385}, "at most 16384"),
        ({"command": "x", "timeout_s": 0}, "greater than 0"),
        ({"command": "x", "timeout_s": 7201}, "less than or equal to 7200"),
        ({"command": "x", "timeout_s": float("nan")}, "timeout_s"),
        ({"command": "x", "timeout_s": float("inf")}, "timeout_s"),
        ({"command": "x", "expect": {"exit": 0}}, "greater than or equal to 1"),
        ({"command": "x", "expect": {"exit": 256}}, "less than or equal to 255"),
        ({"command": "x", "expect": {"pattern": "("}}, "pattern is not a regular expression we run: .*unclosed group"),
        ({"command": "x", "expect": {"pattern": "(?=a)"}}, "look-around"),
        ({"command": "x", "expect": {"pattern": r"(a)\1"}}, "backreferences"),
        ({"command": "x", "expect": {"pattern": "((a{1000}){1000}){1000}"}}, "size limit"),
        ({"command": "x", "expect": {"pattern": "a" * 1001}}, "at most 1000"),
        ({"command": "x", "expect": {"output": "a"}}, "Extra inputs"),
        ({"command": "x", "env": {}}, "Extra inputs"),
        ({"command": "x", "files": [{"path": "a", "text": "\0"}]}, "NUL"),
        ({"command": "x", "files": [{"path": "a", "text": ""}] * 2}, "each path once"),
        ({"command": "x", "files": [{"path": "a", "text": ""}, {"path": "a/b", "text": ""}]}, "none below another"),
    ],
)
def test_a_reproducer_that_cannot_be_run_safely_is_refused(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Reproducer.model_validate(fields)


def test_a_reproducer_has_at_most_64_files_and_one_mebibyte() -> None:
    many = tuple(File(path=f"f{number}", text="") for number in range(MAX_FILES + 1))
    assert Reproducer(command="x", files=many[:MAX_FILES])
    with pytest.raises(ValidationError, match="at most 64 files"):
        Reproducer(command="x", files=many)
    half = "é" * (MAX_FILE_BYTES // 4)
    full = (File(path="a", text=half), File(path="b", text=half))
    assert Reproducer(command="x", files=full)
    with pytest.raises(ValidationError, match="1048576 bytes"):
        Reproducer(command="x", files=(*full, File(path="c", text="x")))


def test_a_reproducer_becomes_a_check_with_everything_it_needs() -> None:
    source = Reproducer(
        command="pytest", files=(File(path="t.py", text="x"),), expect=Expect(exit=1, pattern="x"), timeout_s=9
    )
    check = Check.reproducing(source, "reproducer F1")
    assert (check.name, check.kind) == ("reproducer F1", "reproducer")
    assert {name: getattr(check, name) for name in Reproducer.model_fields} == dict(source)


@pytest.mark.parametrize("commit", ["", "main", "HEAD", "a" * 39, "A" * 40, "a" * 65, "a" * 40 + "\n", "-" * 40])
def test_a_change_is_an_exact_commit_and_never_a_name(commit: str) -> None:
    with pytest.raises(ValidationError, match="commit"):
        Change(commit=commit, tree="b" * 40)
    assert str(Change(commit="a" * 40, tree="b" * 64)) == "a" * 10


@pytest.mark.parametrize(
    ("execution", "passed"), [("PASSED", True), ("SHOWN", False), ("BROKEN", False), ("FLAKY", False)]
)
def test_only_passed_is_passed(execution: Execution, passed: bool) -> None:
    evidence = Evidence(
        id="e", check=ANY, on="a" * 40, exit=0, seconds=0.1, digest="d", log="l", branch="b", execution=execution
    )
    assert evidence.passed is passed
