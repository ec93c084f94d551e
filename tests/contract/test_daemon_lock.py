"""One daemon per store, over SQLite and over a real Postgres."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.journal_stage import child

from resolvent.adapters.journal.lock import DaemonLock
from resolvent.adapters.journal.sqlite import path_of
from resolvent.errors import ConfigError, DaemonRunning, StoreBusy

HOLDS = """
lock = DaemonLock(URL)
say(await lock.acquire()); pause()
await lock.release()
say("released"); pause()
"""


@pytest.fixture
async def lock(store_url: str) -> AsyncIterator[DaemonLock]:
    made = DaemonLock(store_url)
    yield made
    await made.release()


async def test_the_lock_is_taken_once_and_known_by_its_process(lock: DaemonLock, store_url: str) -> None:
    assert await lock.holder() is None
    assert await lock.acquire()
    assert await lock.acquire()
    other = DaemonLock(store_url)
    assert not await other.acquire()
    assert await other.holder() == os.getpid()
    await other.release()
    assert not await other.acquire()


@pytest.mark.spec("D3")
async def test_a_second_daemon_is_told_which_process_runs(lock: DaemonLock, store_url: str) -> None:
    async with child(store_url, HOLDS) as daemon:
        assert await daemon.says() == "True"
        with pytest.raises(DaemonRunning, match=f"process {daemon.pid} ") as running:
            await lock.take()
        assert running.value.details["pid"] == daemon.pid
        assert running.value.exit_code == 5
        await daemon.go()
        assert await daemon.says() == "released"
        assert await lock.holder() is None
        await lock.take()
        assert await lock.holder() == os.getpid()


async def test_whoever_waits_gets_the_lock_when_its_holder_lets_go(lock: DaemonLock, store_url: str) -> None:
    async with child(store_url, HOLDS) as daemon:
        assert await daemon.says() == "True"
        waiting = asyncio.ensure_future(lock.wait())
        assert not (await asyncio.wait({waiting}, timeout=0.1))[0]
        await daemon.go()
        await waiting
    assert await lock.holder() == os.getpid()


async def test_whoever_waits_gets_the_lock_when_its_holder_is_killed(lock: DaemonLock, store_url: str) -> None:
    async with child(store_url, HOLDS) as daemon:
        assert await daemon.says() == "True"
        waiting = asyncio.ensure_future(lock.wait())
        assert not (await asyncio.wait({waiting}, timeout=0.1))[0]
        await daemon.kill()
        await waiting
    assert await lock.acquire()
    assert await lock.holder() == os.getpid()


async def test_a_dead_holder_is_no_holder(sqlite_url: str) -> None:
    lock = DaemonLock(sqlite_url)
    async with child(sqlite_url, HOLDS) as daemon:
        assert await daemon.says() == "True"
        assert await lock.holder() == daemon.pid
        await daemon.kill()
    assert await lock.holder() is None
    await lock.take()
    await lock.release()


async def test_waiting_for_a_free_lock_takes_it_and_again_is_fine(lock: DaemonLock) -> None:
    await lock.wait()
    await lock.wait()
    assert await lock.holder() == os.getpid()


async def test_waiting_can_be_cancelled_and_leaves_nothing_behind(lock: DaemonLock, store_url: str) -> None:
    holder = DaemonLock(store_url)
    await holder.take()
    waiting = asyncio.ensure_future(lock.wait())
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await holder.release()
    third = DaemonLock(store_url)
    await third.take()
    await third.release()


async def test_of_several_who_wait_one_gets_it_after_the_other(store_url: str) -> None:
    holder, *others = [DaemonLock(store_url) for _ in range(4)]
    await holder.take()
    waiting = {asyncio.ensure_future(one.wait()): one for one in others}
    left = set(waiting)
    await holder.release()
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        await waiting[done.pop()].release()


async def test_children_of_the_holder_do_not_keep_the_lock(sqlite_url: str) -> None:
    lock = DaemonLock(sqlite_url)
    await lock.take()
    orphan = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, close_fds=False)
    await lock.release()
    other = DaemonLock(sqlite_url)
    assert await other.acquire()
    await other.release()
    orphan.kill()
    await orphan.wait()


async def test_a_removed_lock_file_is_made_again_and_strange_content_names_nobody(sqlite_url: str) -> None:
    file = Path(f"{path_of(sqlite_url)}.lock")
    lock = DaemonLock(sqlite_url)
    await lock.take()
    await lock.release()
    for content in (b"", b"\xff\xfe", b"12", b"-1 5", b"999999999999999999999 1", b"1 2 3", b"\xc2\xb2 1"):
        file.write_bytes(content)
        assert await lock.holder() is None
    file.unlink()
    await lock.take()
    assert file.exists()
    await lock.release()


@pytest.mark.parametrize("url", ["mysql://x", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_names_no_store_cannot_be_locked(url: str) -> None:
    with pytest.raises(ConfigError):
        DaemonLock(url)


async def test_a_lock_that_cannot_be_asked_for_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreBusy):
        await DaemonLock(f"sqlite:///{tmp_path}/file/state.db").acquire()
    with pytest.raises(StoreBusy):
        await DaemonLock("postgresql://me:hunter2@127.0.0.1:1/nowhere").acquire()
