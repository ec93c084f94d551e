"""The store of branches: one commit for everything, whoever dies in between, however many ask at once."""

import asyncio
import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.journal.store import Connection, Store
from resolvent.adapters.workspace.branch_rows import SCHEMA, Standing
from resolvent.adapters.workspace.branches import BranchStore
from resolvent.adapters.workspace.layer_store import LayerStore
from resolvent.domain.job import Branch
from resolvent.errors import BranchBusy, JobLost, NotFound, ReplayDiverged, StoreBusy

COMMIT = "c" * 40
CHILD = Branch(id="child", parent="r", commit=COMMIT)

Verb = Callable[[BranchStore], Coroutine[Any, Any, None]]


def never(job: str) -> bool:
    return False


def root(id: str, *, commit: str = COMMIT) -> Branch:
    return Branch(id=id, parent=None, commit=commit)


def child(id: str, *, of: str) -> Branch:
    return Branch(id=id, parent=of, commit=COMMIT)


def as_they_are(lowers: tuple[str, ...]) -> tuple[str, ...]:
    return lowers


@pytest.fixture
def running() -> set[str]:
    return set()


@pytest.fixture
async def store(tmp_path: Path, running: set[str]) -> Any:
    store = await BranchStore.open(tmp_path / "sandbox", running=running.__contains__)
    yield store
    await store.close()


async def write(store: BranchStore, id: str, name: str, *, job: str = "job") -> str:
    """What a job does that writes one file; the layer it wrote to."""
    here = await store.take(id, job=job)
    (store.layers.up(here.upper) / name).write_text(name)
    return here.upper


def held(store: BranchStore, here: Standing | None) -> set[str]:
    """The names of all files in all layers of a branch."""
    assert here is not None
    return {path.name for layer in here.shown for path in store.layers.up(layer).iterdir()}


async def test_asking_again_for_a_branch_returns_the_same_one(store: BranchStore) -> None:
    made = await store.create(root("a"), lowers=())
    await write(store, "a", "kept")
    again = await store.create(root("a"), lowers=())
    assert again.branch == made.branch and held(store, again) == {"kept"}
    await store.fork(child("b", of="a"), below=as_they_are)
    await write(store, "b", "more")
    assert held(store, await store.fork(child("b", of="a"), below=as_they_are)) == {"kept", "more"}
    assert [here.branch.id for here in await store.all()] == ["a", "b"]


async def test_an_id_that_was_made_of_another_commit_or_parent_is_refused(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    await store.create(root("b"), lowers=())
    with pytest.raises(ReplayDiverged):
        await store.create(root("a", commit="d" * 40), lowers=())
    with pytest.raises(ReplayDiverged):
        await store.fork(child("a", of="b"), below=as_they_are)


@pytest.mark.parametrize(
    "id", ["", "a'b\"; DROP TABLE branches", "\0", "\ud800", "../../x", "a\nb", "é", "e\u0301", "x" * 9999]
)
async def test_ids_of_any_shape_are_only_names(store: BranchStore, id: str) -> None:
    await store.create(root("other"), lowers=())
    await store.create(root(id), lowers=())
    await write(store, id, "file")
    await store.fork(child("child", of=id), below=as_they_are)
    assert [here.branch.id for here in await store.all()] == ["other", id, "child"]
    await store.delete(id)
    assert await store.get(id) is None and held(store, await store.get("child")) == {"file"}


@pytest.mark.spec("B7")
async def test_a_branch_takes_no_place_on_the_disk_before_somebody_writes(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    await store.fork(child("b", of="a"), below=as_they_are)
    await store.snapshot("b")
    assert store.layers.names() == ()
    upper = await write(store, "b", "file")
    assert store.layers.names() == (upper,)


async def test_a_branch_over_layers_that_are_gone_is_not_made(store: BranchStore) -> None:
    with pytest.raises(StoreBusy, match="removed"):
        await store.create(root("a"), lowers=("tree-gone",))
    assert await store.get("a") is None


async def test_one_job_at_a_time_and_the_same_one_as_often_as_it_asks(store: BranchStore, running: set[str]) -> None:
    await store.create(root("a"), lowers=())
    first = await store.take("a", job="one")
    running.add("one")
    assert (await store.take("a", job="one")).upper == first.upper
    for refused in (store.take("a", job="two"), store.snapshot("a"), store.seal("a"), store.delete("a")):
        with pytest.raises(BranchBusy, match="one"):
            await refused
    with pytest.raises(BranchBusy):
        await store.lay("a", "digest", write=lambda here: None)
    running.clear()
    second = await store.take("a", job="two")
    assert (second.upper, second.job) == (first.upper, "two")


async def test_what_is_not_there_is_not_found_and_not_removed(store: BranchStore) -> None:
    for asked in (store.take("x", job="j"), store.snapshot("x"), store.seal("x"), store.require("x")):
        with pytest.raises(NotFound):
            await asked
    assert await store.fork(child("b", of="x"), below=as_they_are) is None
    assert await store.delete("x") == ()


@pytest.mark.spec("B7")
async def test_a_sealed_layer_is_never_written_again(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    sealed = await write(store, "a", "one")
    await store.fork(child("b", of="a"), below=as_they_are)
    again = await write(store, "a", "two")
    assert again != sealed and held(store, await store.get("a")) == {"one", "two"}
    assert held(store, await store.get("b")) == {"one"}


async def test_a_fork_of_a_branch_in_use_has_what_was_sealed_before(store: BranchStore, running: set[str]) -> None:
    await store.create(root("a"), lowers=())
    await write(store, "a", "one")
    await store.snapshot("a")
    upper = await write(store, "a", "two", job="now")
    running.add("now")
    assert held(store, await store.fork(child("b", of="a"), below=as_they_are)) == {"one"}
    assert (await store.require("a")).upper == upper and (store.layers.path / upper / "wk").is_dir()


async def test_a_job_that_starts_while_its_branch_is_sealed_keeps_its_layer(tmp_path: Path) -> None:
    started = iter([False, True])
    store = await BranchStore.open(tmp_path / "sandbox", running=lambda job: next(started))
    await store.create(root("a"), lowers=())
    upper = await write(store, "a", "one")
    assert held(store, await store.fork(child("b", of="a"), below=as_they_are)) == set()
    assert (await store.require("a")).upper == upper and (store.layers.path / upper / "wk").is_dir()
    await store.close()


async def test_a_job_that_comes_late_finds_nothing_to_write_to(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    upper = await write(store, "a", "one", job="late")
    await store.snapshot("a")
    assert not (store.layers.path / upper / "wk").exists()
    assert (await store.take("a", job="late")).upper != upper


async def test_what_is_deleted_takes_its_files_along_but_not_those_of_others(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    shared = await write(store, "a", "shared")
    for id in ("b", "c"):
        await store.fork(child(id, of="a"), below=as_they_are)
        await write(store, id, id)
    await store.delete("a", "b")
    assert held(store, await store.get("c")) == {"shared", "c"}
    assert set(store.layers.names()) == {shared, (await store.require("c")).upper}
    assert list((store.layers.sandbox / "trash").iterdir()) == []


async def test_many_are_deleted_together_or_not_at_all(store: BranchStore, running: set[str]) -> None:
    for id in "abc":
        await store.create(root(id), lowers=())
    await store.take("c", job="busy")
    running.add("busy")
    with pytest.raises(BranchBusy):
        await store.delete("a", "b", "c")
    assert len(await store.all()) == 3
    running.clear()
    assert len(await store.delete("a", "b", "c", "a", "never")) == 3
    assert await store.all() == ()


async def test_a_branch_that_was_used_since_it_was_looked_at_is_not_deleted(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    seen = await store.require("a")
    await store.take("a", job="meanwhile")
    with pytest.raises(BranchBusy):
        await store.delete("a", seen=seen)
    assert await store.get("a")


async def test_files_are_laid_once_and_again_after_a_failure(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    written: list[str] = []

    def full(here: Standing) -> None:
        (store.layers.up(here.upper) / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreBusy):
        await store.lay("a", "digest", write=full)
    assert held(store, await store.get("a")) == {"half"}
    for _ in range(2):
        await store.lay("a", "digest", write=lambda here: written.append(here.upper))
    assert written == [(await store.require("a")).upper]


async def test_what_no_branch_names_is_removed_and_only_that(store: BranchStore) -> None:
    await store.create(root("a"), lowers=())
    kept = await write(store, "a", "kept")
    (store.layers.path / "deadbeef0000" / "up").mkdir(parents=True)
    named, unnamed = await store.unused.find()
    assert (named, unnamed) == ({kept}, {"deadbeef0000"})
    assert await store.unused.remove([kept, "deadbeef0000", "not there"]) == ("deadbeef0000",)
    assert store.layers.names() == (kept,)
    many = [f"{number:012x}" for number in range(9)]
    for name in many:
        (store.layers.path / name / "up").mkdir(parents=True)
    assert await store.unused.remove([*many, kept]) == tuple(many)


async def test_the_owner_of_everything_in_a_layer_is_the_jobs_user(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives things away")
    store = await BranchStore.open(tmp_path / "sandbox", running=never, owner=61234)
    await store.create(root("a"), lowers=())
    upper = store.layers.path / (await store.take("a", job="j")).upper
    for path in (store.layers.path, upper, upper / "up", upper / "wk"):
        assert (path.stat().st_uid, path.stat().st_gid) == (61234, 61234)
    assert store.layers.sandbox.stat().st_mode & 0o777 == 0o700 and store.layers.sandbox.stat().st_uid == 0
    await store.close()


PLACES = [b"sp ace", b"quo'te\"", b"new\nline", b"\xff\xfe", b"%s?x=1#:y;", b"-rf"]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.fixture(params=["disk", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, in_memory: Path) -> Path:
    return tmp_path if request.param == "disk" else in_memory


@pytest.mark.parametrize("name", PLACES)
async def test_a_store_may_lie_at_a_path_of_any_bytes(anywhere: Path, name: bytes) -> None:
    sandbox = anywhere / os.fsdecode(name) / "sandbox"
    for _ in range(2):
        store = await BranchStore.open(sandbox, running=never)
        await store.create(root("a"), lowers=())
        await write(store, "a", "file")
        await store.snapshot("a")
        await store.fork(child("b", of="a"), below=as_they_are)
        assert held(store, await store.get("b")) == {"file"}
        await store.delete("a", "b")
        await store.unused.remove(store.layers.names())
        assert store.layers.names() == ()
        await store.close()


# Dying: a child of ours does something, and is killed before its Nth step on the disk or in the database.


def steps(kill_before: int) -> None:
    """Count what changes the disk or the record; before the Nth of them the process is gone."""
    left = kill_before

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **more)

        return step

    for name in ("mkdir", "rename", "rmdir", "unlink", "chown"):
        setattr(os, name, counted(getattr(os, name)))
    Connection.write = counted(Connection.write)  # type: ignore[method-assign]


def in_a_child(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """The id of a child of ours that does this work."""
    process = os.fork()
    if process == 0:
        ended = 1
        try:
            asyncio.run(work())
            ended = 0
        finally:
            # Nothing of the parent's is finished here.
            os._exit(ended)
    return process


def survives(sandbox: Path, verb: Verb, *, kill_before: int) -> bool:
    """Whether a child came to the end of the verb."""

    async def work(store: BranchStore) -> None:
        steps(kill_before)
        await verb(store)

    status = os.waitpid(in_a_child(lambda: with_store(sandbox, work)), 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == 0


async def with_store(sandbox: Path, work: Verb) -> None:
    store = await BranchStore.open(sandbox, running=never)
    await work(store)
    await store.close()


async def prepare(store: BranchStore) -> None:
    await store.create(root("parent"), lowers=())
    await write(store, "parent", "precious")
    await store.create(root("used"), lowers=())
    await write(store, "used", "work")


async def creates(store: BranchStore) -> None:
    await store.create(root("new"), lowers=())


async def forks(store: BranchStore) -> None:
    await store.fork(child("new", of="parent"), below=as_they_are)


async def takes(store: BranchStore) -> None:
    await write(store, "parent", "late")


async def takes_sealed(store: BranchStore) -> None:
    await store.snapshot("parent")
    await write(store, "parent", "late")


async def snapshots(store: BranchStore) -> None:
    await store.snapshot("used")


async def lays(store: BranchStore) -> None:
    await store.lay(
        "used", "digest", write=lambda here: (store.layers.up(here.upper) / "laid").write_text("laid") and None
    )


async def deletes(store: BranchStore) -> None:
    await store.delete("used")


async def flattens(store: BranchStore) -> None:
    sealed = await store.seal("used")
    made = store.layers.sandbox / "made"
    shutil.copytree(store.layers.path / sealed.lowers[0], made)
    await store.flatten(sealed, made=made, below=())


@pytest.mark.spec("B8")
@pytest.mark.parametrize("verb", [creates, forks, takes, takes_sealed, snapshots, lays, deletes, flattens])
def test_a_kill_between_any_two_steps_leaves_every_branch_whole(in_memory: Path, verb: Verb) -> None:
    prepared = in_memory / "prepared"
    asyncio.run(with_store(prepared, prepare))
    survived, died = False, 0
    while not survived:
        sandbox = in_memory / str(died)
        shutil.copytree(prepared, sandbox)
        survived = survives(sandbox, verb, kill_before=died + 1)
        died += not survived
        asyncio.run(with_store(sandbox, lambda store: whole(store, verb)))
    assert died >= 3


async def whole(store: BranchStore, verb: Verb) -> None:
    """Everything is there as before or as after, what was left over can be removed, and the verb can be asked again."""
    for again in range(2):
        assert "precious" in held(store, await store.get("parent"))
        used = await store.get("used")
        assert (used is None and verb is deletes) or "work" in held(store, used)
        _, unnamed = await store.unused.find()
        await store.unused.remove(sorted(unnamed))
        store.layers.sweep()
        named, unnamed = await store.unused.find()
        assert named == set(store.layers.names()) and not unnamed
        assert list((store.layers.sandbox / "trash").iterdir()) == []
        if not again and not (used is None and verb is deletes):
            shutil.rmtree(store.layers.sandbox / "made", ignore_errors=True)
            await verb(store)
    for id in ("parent", "used", "new"):
        if await store.get(id):
            here = await store.take(id, job="next")
            assert (store.layers.path / here.upper / "wk").is_dir()
    if verb is forks:
        assert held(store, await store.get("new")) == {"precious"}


def test_many_processes_make_and_remove_branches_while_one_collects(tmp_path: Path) -> None:
    sandbox = tmp_path / "sandbox"
    asyncio.run(with_store(sandbox, prepare))

    async def busily(store: BranchStore, me: int) -> None:
        for number in range(30):
            await store.fork(child("shared", of="parent"), below=as_they_are)
            await store.fork(child(f"{me}/{number}", of="parent"), below=as_they_are)
            await write(store, f"{me}/{number}", f"{me}-{number}")
            if number % 3 == 0:
                await store.delete(f"{me}/{number}")
            if number % 3 == 1:
                await store.snapshot(f"{me}/{number}")

    async def collecting(store: BranchStore, me: int) -> None:
        for _ in range(60):
            _, unnamed = await store.unused.find()
            await store.unused.remove(sorted(unnamed))

    children = [
        in_a_child(lambda me=me, work=work: with_store(sandbox, lambda store: work(store, me)))
        for me, work in enumerate([busily, busily, busily, collecting])
    ]
    assert [os.waitpid(one, 0)[1] for one in children] == [0, 0, 0, 0]

    async def look(store: BranchStore) -> None:
        for me in range(3):
            for number in range(30):
                here = await store.get(f"{me}/{number}")
                assert held(store, here) == {"precious", f"{me}-{number}"} if number % 3 else here is None
        assert held(store, await store.get("shared")) == {"precious"}
        assert len(await store.all()) == 3 + 3 * 20

    asyncio.run(with_store(sandbox, look))


async def test_a_layer_that_another_job_than_the_last_one_let_in_writes_to_is_neither_sealed_nor_removed(
    store: BranchStore,
) -> None:
    await store.create(root("r"), lowers=())
    upper = (await store.take("r", job="quick")).upper
    # Both were let in before either of them began; the supervisor of the first has the layer now.
    await store.take("r", job="late")
    layer = os.open(store.layers.path / upper, os.O_RDONLY)
    fcntl.flock(layer, fcntl.LOCK_EX)
    for verb in (store.snapshot("r"), store.delete("r"), store.take("r", job="third")):
        with pytest.raises(BranchBusy):
            await verb
    made = await store.fork(child("c", of="r"), below=as_they_are)
    assert made is not None and upper not in made.lowers
    os.close(layer)
    assert (await store.snapshot("r")).lowers == (upper,)


async def booted(sandbox: Path, boot: str) -> BranchStore:
    """The store as a process has it that lives in this boot of the machine."""
    return await BranchStore.open(sandbox, running=never, boot=lambda: boot)


async def refused_as_torn(store: BranchStore, id: str) -> None:
    for verb in (
        store.take(id, job="job"),
        store.take(id, job="next"),
        store.lay(id, "another digest", write=lambda here: None),
        store.seal(id),
        store.snapshot(id),
        store.fork(child("of torn", of=id), below=as_they_are),
    ):
        with pytest.raises(JobLost, match="the machine went down") as caught:
            await verb
        assert caught.value.hint == f"resolvent branch rm {id}"


async def test_what_was_not_sealed_when_the_machine_went_down_is_lost_and_can_be_removed(tmp_path: Path) -> None:
    before = await booted(tmp_path, "one")
    for id in ("r", "laid"):
        await before.create(root(id), lowers=())
    upper = await write(before, "r", "perhaps torn")
    await before.lay("laid", "digest", write=lambda here: None)
    assert (await before.take("r", job="job")).upper == upper
    await before.close()
    after = await booted(tmp_path, "two")
    for id in ("r", "laid"):
        await refused_as_torn(after, id)
    assert (await after.require("r")).upper == upper
    # Sealed so that its files can be looked at, it is still not to be built upon.
    assert (await after.seal("r", torn=True)).lowers == (upper,)
    await refused_as_torn(after, "r")
    assert [here.branch.id for here in await after.delete("r", "laid")] == ["r", "laid"]
    await after.create(root("r"), lowers=())
    await write(after, "r", "anew")
    await after.snapshot("r")
    await after.close()


@pytest.mark.spec("B8")
async def test_what_a_snapshot_sealed_outlives_the_machine_and_what_a_fork_sealed_does_not(tmp_path: Path) -> None:
    before = await booted(tmp_path, "one")
    for id in ("kept", "r"):
        await before.create(root(id), lowers=())
        await write(before, id, id)
    await before.snapshot("kept")
    await before.fork(child("of kept", of="kept"), below=as_they_are)
    await before.fork(CHILD, below=as_they_are)
    await before.close()
    after = await booted(tmp_path, "two")
    for id in ("r", "child"):
        await refused_as_torn(after, id)
    await write(after, "kept", "more")
    await write(after, "of kept", "more")
    assert held(after, await after.snapshot("kept")) == {"kept", "more"}
    await after.close()


async def test_a_child_of_a_branch_that_a_job_ran_in_has_what_outlived_the_machine(tmp_path: Path) -> None:
    jobs = {"second"}
    before = await BranchStore.open(tmp_path, running=jobs.__contains__, boot=lambda: "one")
    await before.create(root("r"), lowers=())
    await write(before, "r", "first", job="first")
    await before.snapshot("r")
    await write(before, "r", "second", job="second")
    await before.fork(CHILD, below=as_they_are)
    await before.close()
    after = await booted(tmp_path, "two")
    await refused_as_torn(after, "r")
    assert held(after, await after.take("child", job="job")) == {"first"}
    await after.close()


async def test_where_boots_have_no_name_nothing_is_taken_for_lost(tmp_path: Path) -> None:
    for before, after in (("one", ""), ("", "two")):
        sandbox = tmp_path / f"{before}-{after}"
        store = await booted(sandbox, before)
        await store.create(root("r"), lowers=())
        await write(store, "r", "file")
        await store.close()
        store = await booted(sandbox, after)
        assert held(store, await store.snapshot("r")) == {"file"}
        await store.close()


async def test_a_store_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    old = await Store.open(f"sqlite:///{sandbox}/branches.db")
    await old.migrate("branches", SCHEMA[:1])
    row = "('r', :commit, '', '', '', '', '', 1, 1)"
    columns = "(id, made_of, upper, lowers, job, laid, became, created_at, updated_at)"
    await old.transaction(lambda rows: rows.write(f"INSERT INTO branches {columns} VALUES {row}", commit=COMMIT))
    await old.close()
    store = await booted(sandbox, "one")
    await write(store, "r", "file")
    assert held(store, await store.snapshot("r")) == {"file"}
    await store.close()


def test_the_name_of_a_layer_that_was_taken_over_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = LayerStore(tmp_path / "sandbox")
    (tmp_path / "made/up").mkdir(parents=True)
    lasting: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: lasting.extend(os.listdir(fd)))
    assert [layers.adopt(tmp_path / "made")] == lasting
    layers.close()


class Disk:
    """What is waited for: the disk of the layers, and durable transactions."""

    def __init__(self, store: BranchStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: list[str] = []
        sync, transact, relaxed = store.layers.sync, Store._transact, Store._relaxed

        def synced() -> None:
            self.waits.append("files")
            sync()

        def transacted(one: Store, work: Callable[[Connection], Any]) -> Any:
            def watched(connection: Connection) -> Any:
                result = work(connection)
                # One that writes nothing waits for nothing.
                if connection.announced:
                    self.waits.append("record, whatever was committed before")
                return result

            self.waits.append("record")
            return transact(one, watched)

        def ordered(one: Store, work: Callable[[Connection], Any]) -> Any:
            before = [*self.waits]
            result = relaxed(one, work)
            self.waits[:] = before
            return result

        monkeypatch.setattr(store.layers, "sync", synced)
        monkeypatch.setattr(Store, "_transact", transacted)
        monkeypatch.setattr(Store, "_relaxed", ordered)


async def test_a_snapshot_of_what_is_on_the_disk_waits_for_the_record_alone(
    store: BranchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create(root("r"), lowers=())
    disk = Disk(store, monkeypatch)
    assert (await store.snapshot("r")).lowers == ()
    # The first looks and writes nothing.
    assert disk.waits == ["record", "record", "record, whatever was committed before"]
    upper = await write(store, "r", "file")
    disk.waits.clear()
    assert (await store.snapshot("r")).lowers == (upper,) and disk.waits == ["record", "files", "record"]
    # What a fork sealed nobody has waited for.
    await write(store, "r", "more")
    await store.fork(CHILD, below=as_they_are)
    for id in ("r", "child"):
        disk.waits.clear()
        assert (await store.snapshot(id)).sealed_in == "" and "files" in disk.waits


async def test_layers_are_removed_after_the_record_forgot_them_for_good(
    store: BranchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create(root("r"), lowers=())
    upper = await write(store, "r", "file")
    await store.snapshot("r")
    await store.delete("r")
    disk = Disk(store, monkeypatch)
    bury = store.layers.bury
    waited: list[list[str]] = []
    monkeypatch.setattr(store.layers, "bury", lambda name: (waited.append([*disk.waits]), bury(name))[1])
    assert await store.unused.remove([upper]) == (upper,)
    # The last one is the one that it happens in.
    assert waited == [["record", "record, whatever was committed before", "record"]]


async def test_who_cannot_have_a_branch_is_told_of_a_job_only_if_one_runs(
    store: BranchStore, running: set[str]
) -> None:
    await store.create(root("a"), lowers=())
    seen = await store.require("a")
    await store.take("a", job="one")
    with pytest.raises(BranchBusy, match="somebody else uses branch 'a'") as caught:
        await store.delete("a", seen=seen)
    assert caught.value.hint == "resolvent branch ls"
    running.add("one")
    with pytest.raises(BranchBusy, match="job one runs in branch 'a'"):
        await store.delete("a")
