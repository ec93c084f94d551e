"""The demo as a newcomer runs it."""

import os
import subprocess
from pathlib import Path

import pytest

from .process import Place


@pytest.fixture
def anywhere(tmp_path: Path) -> Place:
    """An empty home and nothing else."""
    made = Place(tmp_path)
    made.project.mkdir()
    (tmp_path / "home").mkdir()
    return made


@pytest.mark.spec("K8", "O4")
def test_the_demo_ends_proven_and_every_check_says_the_same_again_by_hand(anywhere: Place, tmp_path: Path) -> None:
    said = anywhere("demo", "--directory", str(tmp_path / "demo"), "--json")
    assert said.code == 0
    outcome = said.json
    assert outcome["outcome"] == "proven" and outcome["gate"]["open"] and outcome["rounds"] == 1
    by_id = {finding["id"]: finding for finding in outcome["findings"]}
    assert (by_id["F1"]["triage"], by_id["F1"]["origin"], by_id["F1"]["basis"]) == (
        "FIX_IN_THIS_PR",
        "introduced",
        "executed",
    )
    assert (by_id["F2"]["triage"], by_id["F2"]["origin"]) == ("DEFER_CREATE_ISSUE", "pre_existing")
    assert (by_id["F3"]["triage"], by_id["F3"]["valid"]) == ("INVALID_OR_ALREADY_FIXED", False)
    shown = anywhere("show", "--json", "-C", str(tmp_path / "demo/ledger")).json
    # Also the change without its fix is there, which nobody publishes.
    repository = next((tmp_path / "state").rglob("repo.git"))
    assert len(shown["evidence"]) >= 12
    for number, evidence in enumerate(shown["evidence"]):
        checkout = tmp_path / f"by-hand-{number}"
        checkout.mkdir()
        laid = [
            "git",
            f"--git-dir={repository}",
            f"--work-tree={checkout}",
            "checkout",
            "-q",
            evidence["on"],
            "--",
            ".",
        ]
        subprocess.run(laid, check=True, env=dict(os.environ) | {"GIT_INDEX_FILE": str(tmp_path / f"index-{number}")})
        for file in evidence["files"]:
            path = checkout / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file["text"], encoding="utf-8")
        done = subprocess.run(["sh", "-c", evidence["command"]], cwd=checkout, capture_output=True, check=False)
        assert done.returncode == evidence["exit"], evidence


@pytest.mark.parametrize("sabotage", ["noop", "liar"])
def test_agents_that_cheat_end_escalated(anywhere: Place, tmp_path: Path, sabotage: str) -> None:
    said = anywhere("demo", "--sabotage", sabotage, "--directory", str(tmp_path / "demo"), "--json")
    assert said.code == 3
    assert said.json["outcome"] == "escalated" and "no_change" in said.json["reason"]


@pytest.mark.spec("K5", "K8")
def test_the_demo_runs_twice_and_prints_its_evidence(anywhere: Place, tmp_path: Path) -> None:
    for name in ("one", "two"):
        said = anywhere("demo", "--directory", str(tmp_path / name))
        assert said.code == 0, said.err
        assert "evidence" in said.out and "proven" in said.out and "\x1b" not in said.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "one", "project", "state", "two"]
    assert [*(tmp_path / "home").rglob("*"), *anywhere.project.iterdir()] == []
