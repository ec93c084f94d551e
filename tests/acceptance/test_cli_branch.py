"""The sandbox on its own, as somebody meets it who types `resolvent branch` for the first time."""

import subprocess
from pathlib import Path

import pytest
from asyncinotify import Inotify, Mask

from resolvent.branching import fit
from resolvent.cli.branch_running import whole_characters
from resolvent.errors import UsageError

from .process import RESOLVENT, Place, Said, interrupt

MANY_LINES = """
echo begun
i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo "$i ......................................................"; done
echo at the end; exec sleep 60
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository with one file, and a machine that can confine."""
    made = Place(tmp_path_factory.mktemp("branches"))
    made.project.mkdir()
    (made.directory / "home").mkdir()
    (made.project / "value.txt").write_text("bad\n", encoding="utf-8")
    made.git("init", "-q", "-b", "main")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    if "NoSandbox" in (said := made("branch", "new", "probe", "--json")).out:
        pytest.skip(said.out)
    return made


def given(place: Place, stdin: bytes, *words: str) -> bytes:
    """What the command prints when this is its standard input."""
    return subprocess.run(
        [*RESOLVENT, *words], cwd=place.project, env=place.environ, input=stdin, capture_output=True, check=True
    ).stdout


def left_behind(place: Place, name: str) -> list[Path]:
    """The job and private directories of a branch's commands."""
    return [
        path for kind in ("jobs", "private") for path in (place.directory / "state" / kind).glob(f"branch.{name}-*")
    ]


def refused(said: Said, code: int, *told: str) -> bool:
    assert said.code == code and said.err.startswith("error: ") and "\nnext: " in said.err, said
    assert all(words in said.err for words in told), said
    return True


def test_removed_work_is_got_back_by_what_is_printed_and_by_its_ref(place: Place) -> None:
    assert place("branch", "new", "lost").code == 0
    assert place("branch", "run", "lost", "sh", "-c", "echo found > work.txt; echo printed").code == 0
    assert left_behind(place, "lost")
    assert refused(place("branch", "rm", "los"), 4, "no branch 'los'")
    first, fetch = place("branch", "rm", "lost").out.splitlines()
    assert first.startswith("removed lost; ") and fetch.startswith("git fetch ")
    assert left_behind(place, "lost") == []
    subprocess.run(fetch, shell=True, cwd=place.project, env=place.environ, check=True, capture_output=True)
    assert place.git("show", "FETCH_HEAD:work.txt") == "found\n"

    ref, commit = fetch.split()[-1], place.git("rev-parse", "--short", "FETCH_HEAD").strip()
    assert place("branch", "new", "lost", "--of", ref).code == 0
    said = place("branch", "cat", "lost", "work.txt", "--json")
    assert said.json == {"branch": "lost", "path": "work.txt", "text": "found\n"}
    assert place("branch", "log", "lost", "--json").json == [], "of another branch of that name"
    assert place("branch", "new", "--of", commit, "--json").json["commit"].startswith(commit)


@pytest.mark.spec("B16")
def test_an_agents_own_commits_are_taken_over_as_it_made_them(place: Place) -> None:
    for name in ("own", "idle"):
        assert place("branch", "new", name).code == 0
    who = "git -c user.name=Agent -c user.email=agent@example.invalid"
    script = f"for n in 1 2; do echo $n > value.txt; {who} commit -qam mine-$n; done"
    assert place("branch", "run", "own", "sh", "-c", script).code == 0
    taken = place("branch", "commit", "own", "--own", "--json").json
    assert taken["revision"].startswith("refs/agents/")
    said = place.git("--git-dir", taken["repository"], "log", "--format=%an %s", taken["revision"])
    assert said.splitlines() == ["Agent mine-2", "Agent mine-1", "Tester first"]
    assert place("branch", "commit", "idle", "--own", "--json").json["revision"] is None


def test_a_revision_is_a_branch_of_ours_or_a_commit_of_the_repository(place: Place) -> None:
    first = place.git("rev-parse", "HEAD").strip()
    assert place("branch", "new", "main-broken", "--of", "HEAD", "--json").json["commit"] == first
    made = place("branch", "new", "of-main", "--of", "main", "--json").json
    assert made == {"id": "of-main", "parent": None, "commit": first}, "no fork of main-broken"
    assert refused(place("branch", "new", "--of", "nope"), 4, "'nope'", "next: resolvent branch ls")
    assert refused(place("branch", "new", "--of", "refs/rescue/nope"), 4, "for-each-ref")


def test_a_branch_of_another_rung_is_named_as_such(place: Place) -> None:
    assert place("branch", "new", "walled").code == 0
    assert place("branch", "new", "bare", "--unsafe").code == 0
    assert refused(place("branch", "run", "walled", "--unsafe", "true"), 4, "on rung plain; one of that name lies on")
    assert refused(place("branch", "run", "bare", "true"), 4, "lies on rung plain", "--unsafe")
    assert place("branch", "run", "bare", "--unsafe", "--", "grep", "-c", "bad", "value.txt").out == "1\n"
    listed = place("branch", "ls").out.splitlines()
    assert listed[0].split() == ["branch", "commit", "parent", "used"]
    assert listed[-1] == "1 more on rung plain, copy or landlock"
    (place.project / "resolvent.local.toml").write_text('[sandbox]\nrung = "plain"\n', encoding="utf-8")
    try:
        assert refused(place("branch", "run", "bare", "true"), 2, "without walls", "--unsafe")
    finally:
        (place.project / "resolvent.local.toml").unlink()


def test_a_command_is_given_its_input_and_its_limits_and_its_end_is_told(place: Place) -> None:
    assert place("branch", "new", "told").code == 0
    assert given(place, b"x\xff\0y" * 50_000, "branch", "run", "told", "cat") == b"x\xff\0y" * 50_000
    said = place("branch", "run", "told", "--wall", "0.3", "--", "sleep", "60")
    assert said.code == 124 and "limit of 0.3s" in said.err and "--wall" in said.err
    said = place("branch", "run", "told", "--", "nosuch", "-x")
    assert said.code == 127 and "nosuch: not found in the box" in said.err
    assert place("branch", "run", "told", "sh", "-c", "echo one; exit 3").code == 3
    head = given(place, b"", "branch", "log", "told").splitlines()[-2].decode()
    assert head.startswith("── sh -c 'echo one; exit 3' · exit 3 after 0."), head
    heard = place("branch", "log", "told", "--json").json
    assert [(one["command"][0], one["ending"], one["exit"]) for one in heard[1:]] == [
        ("sleep", "wall", 143),
        ("nosuch", "exited", 127),
        ("sh", "exited", 3),
    ]
    assert heard[3]["output"] == "one\n"
    assert place("branch", "diff", "told", "--json").json == {"branch": "told", "patch": ""}
    assert refused(place("branch", "cat", "told", "nope"), 4, "no file 'nope'", "next: resolvent branch run told -- ls")


def test_whoever_stops_a_command_is_shown_its_end_and_no_more(place: Place) -> None:
    assert place("branch", "new", "busy").code == 0
    process = place.start("branch", "run", "busy", "sh", "-c", MANY_LINES)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    (output,) = (place.directory / "state" / "jobs").glob("branch.busy-*/output")
    wait_for(output, b"at the end\n")
    interrupt(process)
    rest, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "was stopped" in said
    assert len(rest) < 500_000 < output.stat().st_size and rest.endswith("at the end\n")

    process = place.start("branch", "run", "busy", "sh", "-c", "while echo more; do :; done")
    assert process.stdout is not None and process.stdout.readline() == "more\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 141 and process.stderr is not None and "Traceback" not in process.stderr.read()
    process.stderr.close()


def wait_for(output: Path, end: bytes) -> None:
    with Inotify(sync_timeout=30) as bell:
        bell.add_watch(output, Mask.MODIFY)
        while not output.read_bytes().endswith(end):
            assert bell.sync_get() is not None, f"{output} never ended with {end!r}"


def test_what_runs_in_a_branch_is_ended_by_its_name(place: Place) -> None:
    assert place("branch", "new", "held").code == 0
    process = place.start("branch", "run", "held", "sh", "-c", "echo up; exec sleep 60")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    assert refused(place("branch", "run", "held", "true"), 5, "next: resolvent branch stop held")
    assert refused(place("branch", "rm", "held"), 5, "next: resolvent branch stop held")
    assert place("branch", "stop", "held").out == "stopped held\n"
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143 and "was stopped" in said
    assert place("branch", "stop", "held", "--json").json == {"branch": "held", "stopped": False}

    # What a crash left of the commands of a branch that is gone goes with the rest; what others printed stays.
    orphan = place.directory / "state" / "jobs" / "branch.gone-0123456789abcdef0123.5.1"
    orphan.mkdir()
    assert place("branch", "gc").code == 0
    assert not orphan.exists() and left_behind(place, "held")


def test_a_character_is_printed_when_all_of_it_is_there() -> None:
    for text in ("", "a", "ä", "€", "𝄞", "a𝄞b"):
        content = text.encode()
        assert whole_characters(content) == len(content)
        for cut in range(1, len(content) + 1):
            assert content[: whole_characters(content[:cut])].decode() == content[:cut].decode(errors="ignore")
    assert whole_characters(b"\x80\x80\x80") == 3, "what is no text is not waited for"


def test_a_name_that_nobody_could_type_again_is_refused(place: Place) -> None:
    said = place("branch", "new", "--", "a\x1b[31m")
    assert refused(said, 2, "cannot be seen") and "\x1b" not in said.err
    for name, why in {"": "is empty", " ": "is empty", "-x": "begins with a dash", "n" * 101: "more than 100"}.items():
        with pytest.raises(UsageError, match=why):
            fit(name)
    assert fit("n" * 100) == "n" * 100 and fit("größer/als #1") == "größer/als #1"
