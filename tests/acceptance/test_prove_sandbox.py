"""`resolvent prove sandbox`: what a person sees of the attacks on our own walls."""

from pathlib import Path

import pytest

from resolvent.testing.escape.suite import ATTACKS
from tests.architecture import source

from .process import Place

GUIDE = source.ROOT / "docs/guide/threats.md"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """No repository is needed: the suite brings its own."""
    made = Place(tmp_path)
    made.project.mkdir()
    (tmp_path / "home").mkdir()
    return made


def test_it_prints_a_row_per_attack_and_counts_them_in_the_last_line(place: Place) -> None:
    said = place("prove", "sandbox", "--only", "later")
    assert said.code == 0 and said.err == "", said
    lines = said.out.splitlines()
    assert lines[1].split() == ["attack", "defence", "result", "ms"]
    assert [line for line in lines if line.startswith("build files that run later") and "FLAGGED" in line]
    assert "a person is asked before it is pushed: .github/workflows/ci.yml" in said.out
    assert "nobody is asked: Makefile" in said.out
    assert lines[-1] == "2 attacks, 0 escaped, 0 limited, 2 flagged, 0 not tried"


def test_it_tells_programs_the_same_as_json(place: Place) -> None:
    said = place("prove", "sandbox", "--only", "answer.json", "--json")
    assert said.code == 0
    assert said.json["rung"] in ("overlay", "memory", "copy", "landlock")
    assert {row["verdict"] for row in said.json["results"]} == {"SAFE"}
    assert {*said.json["results"][0]} == {"attack", "defence", "verdict", "said", "ms"}


def test_one_that_gets_out_is_told_and_is_exit_1(place: Place) -> None:
    # Every box shows /usr: for somebody who lives there, it shows a home.
    place.extra["HOME"] = "/usr"
    said = place("prove", "sandbox", "--only", "read $HOME")
    assert said.code == 1
    assert "ESCAPED" in said.out and said.out.splitlines()[-1].startswith("1 attacks, 1 escaped")


def test_where_nothing_was_tried_nothing_is_shown_and_that_is_exit_1(place: Place) -> None:
    said = place("prove", "sandbox", "--only", "an unknown hole of the kernel")
    assert said.code == 1
    assert said.out.splitlines()[-1] == "1 attacks, 0 escaped, 0 limited, 0 flagged, 1 not tried"


def test_it_leaves_nothing_behind_in_the_directory_it_was_given(place: Place, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir(mode=0o700)
    said = place("prove", "sandbox", "--only", "3000", "--directory", str(tmp_path / "here"))
    assert said.code == 0 and "1 attacks, 0 escaped" in said.out
    assert list((tmp_path / "here").iterdir()) == []
    assert (tmp_path / "here").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rung", "plain"), "there is no rung 'plain'"),
        (("--only", "no such attack"), "no attack has 'no such attack' in its name"),
        (("--directory", "/nonexistent/place"), "/nonexistent/place is not a directory"),
    ],
)
def test_what_cannot_be_asked_for_is_said(place: Place, words: tuple[str, ...], told: str) -> None:
    said = place("prove", "sandbox", *words)
    assert said.code == 2 and told in said.err and "next: " in said.err


def test_the_guide_holds_every_attack_with_its_defence() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [attack.name for attack in ATTACKS if f"| {attack.name} | {attack.defence} |" not in text] == []
