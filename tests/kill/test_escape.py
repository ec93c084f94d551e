"""Attacks on our own walls, each tried live: none gets out. And with one wall taken away the suite says so."""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from resolvent.adapters.workspace.confine import Walls
from resolvent.domain.job import Job
from resolvent.errors import NoSandbox
from resolvent.testing.escape import answering, git, leaving, reaching, suite, taking, touching
from resolvent.testing.escape.arena import Arena, Attack, limited, same
from tests.contract.programs import change_program

MIB = 1 << 20
# Every other attack must simply fail, wherever this runs.
NOT_SAFE = {
    "disk fill": ("LIMITED",),
    "disk fill by removed files": ("LIMITED",),
    "memory hog": ("SAFE", "LIMITED"),
    "CI files and hooks that run later": ("FLAGGED",),
    "build files that run later": ("FLAGGED",),
    "an unknown hole of the kernel": ("NOT TRIED",),
    "crash into the host's core handler": ("SAFE", "LIMITED"),
    "race root for the owner of a file": ("SAFE",) if os.geteuid() == 0 else ("NOT TRIED",),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def arena(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Arena]:
    async with Arena.open(tmp_path_factory.mktemp("arena")) as opened:
        yield opened


@pytest.mark.spec("B11")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("attack", suite.ATTACKS, ids=lambda attack: attack.name)
async def test_an_attack_does_not_get_out(arena: Arena, attack: Attack) -> None:
    result = await suite.tried(attack, arena)
    assert result.verdict in NOT_SAFE.get(attack.name, ("SAFE",)), result.said


@pytest.mark.spec("B11")
@pytest.mark.parametrize("rung", ["memory", "copy", "landlock"])
async def test_on_the_other_rungs_the_walls_hold_as_well(tmp_path: Path, rung: str) -> None:
    try:
        async with Arena.open(tmp_path, rung=rung) as arena:
            attacks = (*touching.ATTACKS, *reaching.ATTACKS, *leaving.ATTACKS)
            results = [await suite.tried(attack, arena) for attack in attacks]
    except NoSandbox as error:
        pytest.skip(error.message)
    # Landlock stops some of it in part only, and some of it is not possible there.
    fine = ("SAFE", "LIMITED", "NOT TRIED") if rung == "landlock" else ("SAFE",)
    odd = [one for one in results if one.verdict not in NOT_SAFE.get(one.attack, fine)]
    assert [(one.attack, one.verdict, one.said) for one in odd] == []
    assert sum(one.verdict == "SAFE" for one in results) >= 25


def test_every_attack_has_a_name_of_its_own_and_a_defence() -> None:
    names = [attack.name for attack in suite.ATTACKS]
    assert len(names) == len(set(names)) >= 70
    assert all(attack.defence for attack in suite.ATTACKS)
    assert set(NOT_SAFE) <= set(names)


async def verdict(
    directory: Path, attempt: Callable[[Arena], object], *, weaken: Callable[[Job], Job] = same, rung: str = "auto"
) -> suite.Result:
    """What the suite says of one attack when a wall is missing."""
    async with Arena.open(directory, rung=rung, weaken=weaken, unsafe=rung == "plain") as arena:
        return await suite.tried(Attack("weakened", "none", attempt), arena)  # type: ignore[arg-type]


def showing(*names: str, writable: bool = False) -> Callable[[Path], Callable[[Job], Job]]:
    """Walls with a hole: places of the arena that the box shows."""

    def weakened(directory: Path) -> Callable[[Job], Job]:
        places = tuple(str(directory / name) for name in names)

        def weaken(job: Job) -> Job:
            assert job.box is not None
            if job.box.user is not None:
                # Else the modes of root's files are a second wall.
                for place in map(Path, places):
                    for path in (place, *place.rglob("*")):
                        os.chown(path, job.box.user, job.box.user, follow_symlinks=False)
            shown = {"writes" if writable else "reads": places}
            return job.model_copy(update={"box": job.box.model_copy(update=shown)})

        return weaken

    return weakened


@pytest.mark.parametrize(
    ("attempt", "hole"),
    [
        (touching.read_secrets, showing("outside")),
        (touching.read_neighbours, showing("state/private")),
        (touching.write_outside, showing("outside/open", writable=True)),
        (touching.open_kernel_files, showing("outside/open", writable=True)),
        (touching.change_modes, showing("outside/open", writable=True)),
        (touching.spoil_objects, showing("state/upstream.git/objects", writable=True)),
        (touching.spoil_layers, showing("state/sandbox", writable=True)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_place_that_should_not_be_shown_is_an_escape(
    tmp_path: Path, attempt: Callable[[Arena], object], hole: Callable[[Path], Callable[[Job], Job]]
) -> None:
    result = await verdict(tmp_path, attempt, weaken=hole(tmp_path), rung="overlay")
    assert result.verdict == "ESCAPED", result.said


@pytest.mark.parametrize(
    "attempt",
    [
        touching.search_environment,
        touching.read_secrets,
        reaching.attack_process,
        reaching.read_shared_memory,
        reaching.reach_host,
        taking.bomb,
    ],
    ids=lambda value: value.__name__,
)
async def test_without_any_walls_it_is_an_escape(tmp_path: Path, attempt: Callable[[Arena], object]) -> None:
    result = await verdict(tmp_path, attempt, rung="plain")
    assert result.verdict == "ESCAPED", result.said


@pytest.mark.parametrize(
    "attempt",
    [reaching.denied_calls, reaching.foreign_calls, reaching.odd_sockets],
    ids=lambda value: value.__name__,
)
async def test_without_the_filter_of_system_calls_it_is_an_escape(
    tmp_path: Path, attempt: Callable[[Arena], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One instruction: allow.
    allow = "\n\ndef program(machine, sockets='any'):\n    return bytes.fromhex('060000000000ff7f')\n"
    change_program(monkeypatch, tmp_path / "programs", "seccomp", lambda text: text + allow)
    (tmp_path / "arena").mkdir()
    async with Arena.open(tmp_path / "arena", rung="overlay") as arena:
        result = await suite.tried(Attack("weakened", "none", attempt), arena)  # type: ignore[arg-type]
    assert result.verdict == "ESCAPED", result.said


@pytest.mark.parametrize(
    ("attempt", "most"),
    [
        (taking.hog_memory, "MOST_MEMORY"),
        (next(attack.attempt for attack in taking.ATTACKS if attack.name == "disk fill"), "MOST_DISK"),
        (taking.bomb, ""),
        (taking.flood_output, ""),
    ],
    ids=["memory", "disk", "processes", "output"],
)
async def test_without_a_limit_it_is_an_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Callable[[Arena], object], most: str
) -> None:
    if most:
        monkeypatch.setattr(taking, most, 300 * MIB)
    unlimited = limited(memory_bytes=None, disk_bytes=None, processes=4096, output_bytes=1024 * MIB)
    result = await verdict(tmp_path, attempt, weaken=unlimited)
    assert result.verdict == "ESCAPED", result.said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands directories over")
async def test_handing_a_directory_over_again_while_its_job_runs_is_an_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def every_time(self: Walls, place: Path) -> None:
        assert self.user is not None
        for directory, _, names in os.walk(place):
            for name in (".", *names):
                os.chown(os.path.join(directory, name), self.user, self.user, follow_symlinks=False)

    monkeypatch.setattr(Walls, "give", every_time)
    monkeypatch.setattr(touching, "RACES", 5000)
    result = await verdict(tmp_path, touching.race_the_owner, rung="overlay")
    assert result.verdict == "ESCAPED", result.said


@pytest.mark.parametrize("kind", git.PLANTS)
async def test_a_trap_for_git_springs_for_whoever_is_careless(tmp_path: Path, kind: str) -> None:
    async with Arena.open(tmp_path) as arena:
        canary = arena.canary("sprung")
        planted = await arena.attack("plant", {"kind": kind, "command": f"touch '{canary}'"})
        place = f"{arena.workspace.inside(str(planted.private))}/home/copy"
        copied = await arena.attack("copy_out", {"place": place}, branch=planted.branch)
        tree = copied.private / "home/copy"
        assert tree.is_dir() and not canary.exists()
        git.careless_git(tree, arena.repository.path / "objects")
        if kind == "hidden_repository":
            git.careless_git(tree / "innocent", arena.repository.path / "objects")
        assert canary.exists()


async def test_a_private_repository_named_as_alternate_leaks_to_whoever_fetches(tmp_path: Path) -> None:
    async with Arena.open(tmp_path) as arena:
        assert (await git.borrow_private_objects(arena)).verdict == "SAFE"
        private, _ = await git.private_repository(arena)
        # What nobody should do: let our repository read what an agent named.
        (arena.repository.path / "objects/info/alternates").write_text(f"{private}/objects\n")
        result = await suite.tried(Attack("weakened", "none", git.borrow_private_objects), arena)
    assert result.verdict == "ESCAPED", result.said


async def test_a_link_that_is_followed_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Arena.open(tmp_path, rung="overlay") as arena:

        async def following(branch: object, path: str) -> bytes:
            return arena.secret_file.read_bytes()

        monkeypatch.setattr(arena.workspace, "read", following)
        result = await suite.tried(Attack("weakened", "none", leaving.plant_links), arena)
    assert result.verdict == "ESCAPED", result.said


async def test_what_breaks_us_or_makes_us_wait_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(arena: Arena) -> None:
        raise RecursionError("too deep")

    async def waits(arena: Arena) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(suite, "PATIENCE_S", 0.05)
    async with Arena.open(tmp_path) as arena:
        broken = await suite.tried(Attack("breaks", "none", breaks), arena)  # type: ignore[arg-type]
        stuck = await suite.tried(Attack("waits", "none", waits), arena)  # type: ignore[arg-type]
    assert (broken.verdict, broken.said) == ("ESCAPED", "it broke us: RecursionError: too deep")
    assert stuck.verdict == "ESCAPED" and "still waits" in stuck.said


async def test_a_box_that_cannot_be_built_shows_nothing_and_says_why(tmp_path: Path) -> None:
    def broken(job: Job) -> Job:
        assert job.box is not None
        return job.model_copy(update={"box": job.box.model_copy(update={"bwrap": "/nonexistent/bwrap"})})

    async with Arena.open(tmp_path, rung="overlay") as arena:
        arena.weaken = broken
        result = await suite.tried(suite.ATTACKS[0], arena)
    assert result.verdict == "BROKEN" and "the box cannot be built" in result.said


async def test_nothing_is_left_of_the_arena_but_what_surrounded_it(tmp_path: Path) -> None:
    async with Arena.open(tmp_path) as arena:
        sandbox = Path(arena.rung.sandbox)
        await leaving.plant_deep(arena)
    assert not sandbox.exists() and not (tmp_path / "state").exists()


def test_the_last_line_counts_every_verdict() -> None:
    row = suite.Result("a", "d", "SAFE", "", 1)
    verdicts = ("SAFE", "ESCAPED", "LIMITED", "LIMITED", "FLAGGED", "NOT TRIED")
    proof = suite.Proof("overlay", 1, tuple(dataclasses.replace(row, verdict=one) for one in verdicts))  # type: ignore[arg-type]
    assert proof.summary == "6 attacks, 1 escaped, 2 limited, 1 flagged, 1 not tried"
    assert len(proof.escaped) == 1


@pytest.mark.parametrize(
    ("verdicts", "holds"),
    [
        (("SAFE", "LIMITED", "FLAGGED", "NOT TRIED"), True),
        (("SAFE", "ESCAPED"), False),
        (("SAFE", "BROKEN"), False),
        (("NOT TRIED", "NOT TRIED"), False),
    ],
)
def test_walls_hold_when_something_was_tried_and_all_of_it_failed(verdicts: tuple[str, ...], holds: bool) -> None:
    row = suite.Result("a", "d", "SAFE", "", 1)
    proof = suite.Proof("overlay", 1, tuple(dataclasses.replace(row, verdict=one) for one in verdicts))  # type: ignore[arg-type]
    assert proof.holds is holds
    assert proof.summary.endswith(", 1 broken") == ("BROKEN" in verdicts)


async def test_a_watchdog_that_is_asleep_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "LATE_DISK", -taking.DISK)
    result = await verdict(tmp_path, next(attack.attempt for attack in taking.ATTACKS if attack.name == "disk fill"))
    assert result.verdict == "ESCAPED" and "MiB over" in result.said


async def test_a_bundle_that_is_taken_is_an_escape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def takes(*_: object, **__: object) -> str:
        return "refs/agents/x"

    monkeypatch.setattr(answering, "take_bundle", takes)
    result = await verdict(tmp_path, answering.odd_bundle)
    assert (result.verdict, result.said) == ("ESCAPED", "only 0 of 3 refused")
