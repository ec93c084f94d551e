"""Whoever works on branches is killed at any moment: nothing acknowledged is lost, and nothing of it stays behind."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.housekeeping import Housekeeping
from resolvent.testing.campaign.__main__ import KINDS
from resolvent.testing.campaign.check import Check, Finding, Interrupted
from resolvent.testing.campaign.lane import prepared
from resolvent.testing.campaign.outside import called, free, mounts, outlived
from resolvent.testing.campaign.worker import Ledger, Place, Step
from tests.contract.boxed import trouble
from tests.obstacles import mount, own_mounts

KILLS = 200

pytestmark = pytest.mark.skipif(bool(trouble()), reason=trouble())


@pytest.mark.timeout(600)
async def test_two_hundred_kills_lose_nothing_and_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = (sys.executable, "-m", "resolvent.testing.campaign", "--kills", str(KILLS), "--directory", str(tmp_path))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, "--lanes", "2", stdout=pipe, stderr=pipe)
    said, told = (part.decode() for part in await process.communicate())
    with capsys.disabled():
        print("\n" + said)
    assert process.returncode == 0, told
    assert re.search(rf"^all +{KILLS}$", said, re.MULTILINE)
    snapshots, supervisors = (
        int(found) for found in re.findall(r"^(\d+) s(?:napshots|upervisors)", said, re.MULTILINE)
    )
    assert snapshots >= KILLS / 2 and supervisors >= KILLS / 25
    assert all(re.search(rf"^ +0 {re.escape(words)}$", said, re.MULTILINE) for words in KINDS.values())


# From here on: the campaign sees what is wrong, or its silence would mean nothing.


class Scene:
    """A store with three branches, and the ledger of who made them."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place, self.ledger = place, ledger
        self._number = 0

    async def act(self, verb: str, branch: str = "", **more: str) -> None:
        self._number += 1
        step = Step(self._number, verb, branch, **more)  # type: ignore[arg-type]
        hands = await self.place.opened()
        self.ledger.note(step, await hands.do(step, self.ledger))
        await hands.workspace.close()

    async def look(self, interrupted: Interrupted | None = None, *, thorough: bool = False) -> Finding:
        self._number += 1
        check = Check(self.place, self.ledger, interrupted=interrupted, number=self._number)
        return await check.look(thorough=thorough)

    def rows(self, sql: str) -> list[str]:
        with sqlite3.connect(self.place.state / "sandbox/branches.db") as record:
            return [row[0] for row in record.execute(sql)]

    def written(self, path: str) -> Path:
        (found,) = (self.place.state / "sandbox/layers").glob(f"*/up/{path}")
        return found


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    (tmp_path / "state").mkdir(mode=0o700)
    scene = Scene(*await prepared(tmp_path / "state"))
    commit = next(iter(scene.ledger.commits))
    await scene.act("root", "root", commit=commit)
    await scene.act("run", "root", path="src/one", word="one", gone="docs")
    await scene.act("snapshot", "root")
    await scene.act("fork", "fork", parent="root")
    await scene.act("run", "fork", path="new/two", word="two", gone="src/app.py")
    await scene.act("export", "fork")
    await scene.act("root", "bare", commit=commit)
    return scene


def kinds(finding: Finding) -> set[str]:
    return {kind for kind, _ in finding.faults}


async def test_nothing_is_found_where_nothing_is_wrong(scene: Scene) -> None:
    before = {id: held.files for id, held in scene.ledger.branches.items()}
    finding = await scene.look(thorough=True)
    assert finding.faults == [] and finding.entered == 3
    assert {id: held.files for id, held in finding.branches.items()} == before
    assert set(before["fork"]) == {"README.md", "src/deep/er.py", "src/one", "new/two"}


def change_a_file(scene: Scene) -> None:
    scene.written("src/one").write_text("another")


def remove_a_file(scene: Scene) -> None:
    scene.written("new/two").unlink()


def add_a_file(scene: Scene) -> None:
    (scene.written("src/one").parent / "more").write_text("more")


def forget_a_branch(scene: Scene) -> None:
    scene.rows("DELETE FROM branches WHERE id = 'fork'")


def lose_a_layer(scene: Scene) -> None:
    layer = scene.written("src/one").parents[2]
    layer.rename(scene.place.state / "elsewhere")


def move_a_branch(scene: Scene) -> None:
    other = list(scene.ledger.commits)[1]
    scene.rows(f"UPDATE branches SET made_of = '{other}' WHERE id = 'bare'")


@pytest.mark.parametrize(
    "sabotage", [change_a_file, remove_a_file, add_a_file, forget_a_branch, lose_a_layer, move_a_branch]
)
async def test_what_was_lost_is_found(scene: Scene, sabotage: Callable[[Scene], None]) -> None:
    sabotage(scene)
    assert "lost" in kinds(await scene.look())


async def test_a_rescue_that_was_promised_and_is_not_there_is_found(scene: Scene) -> None:
    await scene.act("delete", "fork")
    (ref,) = [name for name in scene.ledger.kept if name.startswith("refs/")]
    await Git(scene.place.state / "repo.git")("update-ref", "-d", ref)
    assert kinds(await scene.look()) == {"lost"}


async def test_a_branch_that_went_without_a_rescue_is_found(scene: Scene) -> None:
    interrupted = Interrupted(Step(99, "delete", "root"))
    assert kinds(await scene.look(interrupted)) == set()
    scene.rows("DELETE FROM branches WHERE id = 'root'")
    assert kinds(await scene.look(interrupted)) == {"lost"}
    assert kinds(await scene.look(Interrupted(Step(99, "drop", "root")))) == set()


async def test_a_branch_that_nobody_made_is_found(scene: Scene) -> None:
    scene.ledger.branches.pop("bare")
    assert kinds(await scene.look()) == {"stray"}


async def test_a_branch_that_cannot_be_entered_is_found(scene: Scene) -> None:
    # The kernel refuses the same directory twice.
    scene.rows("UPDATE branches SET lowers = lowers || ' ' || lowers WHERE id = 'bare'")
    assert "unusable" in kinds(await scene.look())


async def test_what_a_collection_leaves_is_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lazy(self: Housekeeping) -> None: ...

    sandbox = scene.place.state / "sandbox"
    (sandbox / "layers/0123456789ab/up").mkdir(parents=True)
    (sandbox / f"trash/{os.getpid()}-x").mkdir()
    (sandbox / "layers/tree-0123-4567/up").mkdir(parents=True)
    monkeypatch.setattr(Housekeeping, "collect", lazy)
    found = [what for kind, what in (await scene.look(thorough=True)).faults if kind == "litter"]
    assert found == ["0123456789ab", f"trash/{os.getpid()}-x", "tree-0123-4567"]


async def test_a_damaged_object_is_found(scene: Scene) -> None:
    objects = [path for path in (scene.place.state / "repo.git/objects").glob("??/*") if path.is_file()]
    objects[0].chmod(0o600)
    objects[0].write_bytes(b"damaged")
    assert "git" in kinds(await scene.look(thorough=True))


async def test_a_job_that_runs_again_after_it_was_lost_is_found(scene: Scene) -> None:
    step = Step(98, "run", "bare", path="src/x", word="x")
    finding = await scene.look(Interrupted(step, torn=True, begun=True))
    assert kinds(finding) == {"job"}


def test_a_process_that_stays_is_found_and_one_that_goes_is_waited_for(tmp_path: Path) -> None:
    words, pipe = str(tmp_path), subprocess.PIPE
    stays = subprocess.Popen(["/bin/sh", "-c", "echo here; read line; exit 0", words], stdin=pipe, stdout=pipe)
    # Its command line is there only some time after the exec that lets Popen return.
    assert stays.stdout is not None and stays.stdout.readline() == b"here\n"
    assert [line.partition(":")[0] for line in outlived(words.encode(), 0.1)] == [str(stays.pid)]
    assert stays.stdin is not None
    stays.stdin.close()
    assert outlived(words.encode(), 30.0) == []
    stays.wait()
    stays.stdout.close()


def test_a_lock_that_is_held_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    assert free(tmp_path / "lock", 30.0)
    holder = os.open(tmp_path / "lock", os.O_RDWR)
    assert not free(tmp_path / "lock", 0.1)
    os.close(holder)
    assert free(tmp_path / "lock", 30.0)


def test_a_mount_that_stays_is_found(tmp_path: Path) -> None:
    def leak() -> list[str]:
        own_mounts()
        before = mounts(tmp_path)
        mount("tmpfs", str(tmp_path), "tmpfs")
        return [line.split()[4] for line in mounts(tmp_path) - before]

    assert called(leak) == [str(tmp_path)]


async def test_the_lock_that_a_killed_git_left_does_not_keep_a_branch_from_being_deleted(scene: Scene) -> None:
    git = Git(scene.place.state / "repo.git")
    await scene.act("delete", "fork")
    (ref,) = [name for name in scene.ledger.kept if name.startswith("refs/")]
    await git("update-ref", "-d", ref)
    (git.git_dir / f"{ref}.lock").touch()
    scene.ledger.kept.clear()
    await scene.act("fork", "fork", parent="root")
    await scene.act("run", "fork", path="new/two", word="two")
    await scene.act("delete", "fork")
    assert list(scene.ledger.kept) == [f"{ref}.2"]
    assert (await scene.look(thorough=True)).faults == []
