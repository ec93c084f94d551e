"""What an agent may leave has bounds: no export takes for ever, fills the memory, or names a million paths."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.workspace_stage import ADAPTERS, Node, Stage, staged, text

from resolvent.adapters.git import Git, failed
from resolvent.adapters.workspace import basket, files, rules
from resolvent.adapters.workspace.conversation import Conversation, Unanswered
from resolvent.domain.job import Branch
from resolvent.errors import ExportRefused, GitError

BASE: dict[str | bytes, Node] = {"README.md": text("hello\n"), ".gitignore": text("*.o\n")}


@pytest.fixture(params=ADAPTERS)
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged(request.param, tmp_path)
    yield stage
    await stage.close()


@pytest.fixture
async def branch(stage: Stage) -> Branch:
    return await stage.workspace.root(await stage.commit(BASE), id="r")


async def refused(stage: Stage, branch: Branch) -> ExportRefused:
    with pytest.raises(ExportRefused) as caught:
        await stage.workspace.export(branch, message="m", at=1)
    assert stage.leftovers() == []
    return caught.value


async def test_rules_that_take_git_for_ever_are_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ANSWER_S", 0.5)
    endless = await stage.commit({".gitignore": text("**/a*/" * 14 + "[b]\n")})
    branch = await stage.workspace.root(endless, id="r")
    await stage.inside(branch, lambda work: (work / "/".join(["aaaaaaaa"] * 40)).mkdir(parents=True))
    error = await refused(stage, branch)
    assert "rules ignore" in error.message and error.hint
    assert await stage.workspace.read(branch, ".gitignore")


async def test_all_answers_together_have_an_end_too(tmp_path: Path) -> None:
    git = await Git.init_bare(tmp_path / "repo.git")
    with Conversation(git, "cat-file", "--batch", answer_s=60, total_s=0.2) as talk:
        talk.ask(b"nothing\n")
        assert talk.until(b"\n") == b"nothing missing"
        with pytest.raises(Unanswered):
            talk.until(b"\n")


async def test_a_git_that_dies_says_of_what(tmp_path: Path) -> None:
    with (
        pytest.raises(GitError, match="not a git repository"),
        Conversation(Git(tmp_path), "cat-file", "--batch", answer_s=60) as talk,
    ):
        talk.ask(b"nothing\n")
        talk.take(1)


async def test_a_git_of_ours_that_was_killed_is_nobodys_refusal(
    stage: Stage, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.inside(branch, lambda work: (work / "new.py").touch())
    real = Git.stream

    def killed(git: Git, *args: str, **more: Any) -> Any:
        if args[0] in ("unpack-objects", "index-pack"):
            raise failed(args, exit=-9, stderr=b"")
        return real(git, *args, **more)

    monkeypatch.setattr(Git, "stream", killed)
    with pytest.raises(GitError):
        await stage.workspace.export(branch, message="m", at=1)


async def test_files_with_holes_do_not_add_up_without_end(
    stage: Stage, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basket, "MAX_TOTAL", 3 << 20)

    def leave(work: Path) -> None:
        for name in "abcd":
            (work / name).touch()
            os.truncate(work / name, 1 << 20)

    await stage.inside(branch, leave)
    error = await refused(stage, branch)
    assert "more than 3 MiB" in error.message and error.details["paths"] == ["d"]
    await stage.inside(branch, lambda work: (work / "d").unlink())
    assert await stage.workspace.export(branch, message="m", at=1)


@pytest.mark.parametrize("bound, names", [("MAX_FILES", "{}.py"), ("MAX_LOOKS", "{}.o")])
async def test_neither_new_files_nor_names_go_on_without_end(
    stage: Stage, branch: Branch, monkeypatch: pytest.MonkeyPatch, bound: str, names: str
) -> None:
    monkeypatch.setattr(basket, bound, 5)
    await stage.inside(branch, lambda work: [(work / names.format(number)).touch() for number in range(6)])
    error = await refused(stage, branch)
    assert "more than 5" in error.message and error.details["paths"] == [names.format(5)]
    await stage.inside(branch, lambda work: (work / names.format(5)).unlink())
    assert bool(await stage.workspace.export(branch, message="m", at=1)) == (bound == "MAX_FILES")


async def test_a_directory_of_more_names_than_fit_into_memory_is_refused(
    stage: Stage, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.inside(branch, lambda work: [(work / f"{number}.o").touch() for number in range(8)])
    monkeypatch.setattr(files, "MAX_NAMES", 5)
    assert "more than 5 names" in (await refused(stage, branch)).message


async def test_a_refusal_names_some_paths_and_not_all(stage: Stage, branch: Branch) -> None:
    def leave(work: Path) -> None:
        for number in range(300):
            (work / f"{number}/.git").mkdir(parents=True)

    await stage.inside(branch, leave)
    error = await refused(stage, branch)
    paths = error.details["paths"]
    assert isinstance(paths, list) and len(paths) == 100 and len(error.message) < 2000
    assert "and 80 more" in error.message
