"""The command line as such: help, errors, exit codes and what it takes to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from resolvent.cli.main import GROUPS

from .process import RESOLVENT, Place

COMMANDS = (
    "demo", "init", "doctor", "resolve", "design", "runs", "show", "report", "diff", "evidence", "cost", "watch",
    "logs", "decide", "cancel", "retry", "fork", "branch", "serve", "mcp", "schema", "prove",
    "issue new", "issue ls", "issue show", "issue comment", "issue close",
    "pr ls", "pr show", "pr merge", "pr check",
    "branch new", "branch run", "branch stop", "branch ls", "branch log", "branch diff", "branch cat", "branch commit",
    "branch rm", "branch gc", "agent", "agent ls", "agent try", "rehearse", "forge", "forge serve",
    "claim", "claim ls", "claim release",
)  # fmt: skip
ON_A_RUN = (
    "show", "report", "diff", "evidence", "cost", "watch", "logs", "cancel", "retry", "fork --from review",
    "decide yes",
)  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Place:
    """A repository with one commit, and nothing of ours."""
    made = Place(tmp_path)
    made.project.mkdir()
    (tmp_path / "home").mkdir()
    made.git("init", "-q", "-b", "main")
    made.git("commit", "-q", "--allow-empty", "-m", "first")
    return made


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(bare: Place, command: str) -> None:
    said = bare(*command.split(), "--help")
    assert said.code == 0 and said.out.startswith(f"Usage: resolvent {command}".rstrip()), said
    assert said.err == "" and "\x1b" not in said.out


def test_the_help_names_every_command_and_no_other(bare: Place) -> None:
    listed = bare("--help").out.partition("Commands:")[2].splitlines()
    names = {line.split()[0] for line in listed if line.startswith("  ") and line[2:3].strip()}
    assert names == {command.split()[0] for command in COMMANDS}
    assert set(GROUPS.values()) <= names


@pytest.mark.parametrize("words", ["", "issue", "pr", "branch", "agent", "claim"])
def test_a_bare_command_says_what_there_is(bare: Place, words: str) -> None:
    said = bare(*words.split())
    assert said.code == 0 and "Commands:" in said.out and said.err == ""


def test_the_version_is_one_line(bare: Place) -> None:
    said = bare("--version")
    assert said.code == 0 and said.out.startswith("resolvent ") and len(said.out.splitlines()) == 1


@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("reslove 3", "Did you mean 'resolve'"),
        ("show --nope", "No such option"),
        ("fork", "Missing option '--from'"),
        ("runs -n many", "-n takes a number"),
        ("runs -n 0", "-n takes a number"),
        ("resolve 1 --merge maybe", "'maybe' is not one of"),
        ("issue new", "one title"),
        ("issue new title --file bug.md", "one title"),
        ("pr check 1 ci", "nothing was said"),
        ("logs --last 0", "--last takes a number"),
        ("cost last --days 2", "one of them"),
        ("cost --day today --days 2", "one of them"),
        ("cost --days 0", "--days takes a number"),
        ("agent try claude:x hello --model y", "names a model already"),
        ("pr check 1 ci --required --log x", "a log belongs to a result"),
    ],
)
def test_wrong_usage_says_what_and_what_next(bare: Place, words: str, told: str) -> None:
    said = bare(*words.split())
    assert said.code == 2 and told in said.err, said
    assert said.err.startswith("error: ") and "\nnext: " in said.err
    assert said.out == "" and "Traceback" not in said.err


@pytest.mark.spec("K2")
def test_wrong_usage_is_an_object_for_programs(bare: Place) -> None:
    said = bare("show", "--nope", "--json")
    assert said.code == 2 and said.err == ""
    assert said.json == {
        "error": {"class": "UsageError", "message": "No such option: --nope", "hint": "resolvent show --help"}
    }


@pytest.mark.parametrize("words", ["runs", "show", "issue ls", "pr ls", "resolve 1", "init", "watch"])
def test_outside_a_repository_every_command_says_so(bare: Place, words: str) -> None:
    said = bare(*words.split(), "-C", str(bare.directory))
    assert said.code == 2 and "is in no git repository" in said.err and "git init" in said.err, said
    said = bare(*words.split(), "-C", str(bare.directory / "gone"))
    assert said.code == 2 and "is not a directory" in said.err


def test_a_directory_below_the_root_stands_for_the_repository(bare: Place) -> None:
    below = bare.project / "a" / "b"
    below.mkdir(parents=True)
    assert bare("issue", "new", "Found from below", "-C", str(below)).code == 0
    assert [issue["title"] for issue in bare("issue", "ls", "--json").json] == ["Found from below"]


def test_without_runs_there_is_an_empty_list_and_what_to_type(bare: Place) -> None:
    assert bare("runs", "--json").json == []
    said = bare("runs")
    assert said.code == 0 and "no runs yet" in said.out and "resolvent issue new" in said.out


@pytest.mark.parametrize("words", ON_A_RUN)
def test_without_runs_nothing_can_be_done_to_one(bare: Place, words: str) -> None:
    said = bare(*words.split())
    assert said.code == 4 and "there is no run yet" in said.err and "next: resolvent resolve" in said.err, said


@pytest.mark.parametrize("words", ["show nope", "watch nope", "logs nope", "issue show 9", "pr show 9", "schema nope"])
def test_what_does_not_exist_is_not_found(bare: Place, words: str) -> None:
    said = bare(*words.split())
    assert said.code == 4 and said.err.startswith("error: ") and "\nnext: " in said.err, said


def test_serving_nothing_until_idle_ends_at_once(bare: Place) -> None:
    said = bare("serve", "--until-idle")
    assert said.code == 0 and said.err == ""


BREAK = """
import resolvent.cli.main as cli
def broken():
    raise KeyError("nobody thought of this")
cli.assembled = broken
cli.main()
"""


@pytest.mark.spec("K3")
@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_of_ours_is_an_apology_and_exit_70(bare: Place, debug: bool) -> None:
    environ = bare.environ | ({"RESOLVENT_DEBUG": "1"} if debug else {})
    done = subprocess.run([sys.executable, "-c", BREAK], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "nobody thought of this" in done.stderr and "RESOLVENT_DEBUG=1" in done.stderr
    assert ("Traceback" in done.stderr) == debug


def test_a_bug_of_ours_is_an_object_for_programs(bare: Place) -> None:
    words = [sys.executable, "-c", BREAK, "runs", "--json"]
    done = subprocess.run(words, env=bare.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 70 and '"class": "KeyError"' in done.stdout


def test_the_shell_completes_commands_and_runs(finished: Place) -> None:
    def complete(line: str) -> list[str]:
        words = {"_RESOLVENT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        environ = finished.environ | words
        done = subprocess.run(RESOLVENT, env=environ, cwd=finished.project, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert complete("resolvent re") == ["resolve", "rehearse", "report", "retry"]
    assert complete("resolvent show r") == [row["run"] for row in finished("runs", "--json").json]


SLOW = {"asyncio", "dbos", "jinja2", "pydantic", "rich", "sqlalchemy", "psycopg"}


@pytest.mark.parametrize(("words", "allowed"), [(("--help",), {"asyncio"}), (("runs",), {"asyncio"})])
def test_what_must_start_quickly_imports_nothing_slow(
    finished: Place, words: tuple[str, ...], allowed: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "resolvent", *words],
        env=finished.environ,
        cwd=finished.project,
        capture_output=True,
        text=True,
        check=False,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == 0 and imported & (SLOW - allowed) == set()


def test_a_branch_that_no_commit_can_hold_is_removed_only_by_who_says_so(bare: Place) -> None:
    if bare("branch", "new", "big").code:
        pytest.skip("no branches here")
    assert bare("branch", "run", "big", "--", "sh", "-c", "truncate -s 200M huge; echo work > work").code == 0
    said = bare("branch", "rm", "big")
    assert said.code == 1 and "larger than 100 MiB" in said.err
    assert "next: resolvent branch rm --discard big" in said.err
    assert bare("branch", "rm", "--discard", "big").out == "removed big\n"
    assert "big" not in bare("branch", "ls").out
