"""The store under the journal: nothing half-written, nothing missed, clear words when the database is not well."""

import asyncio
import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from tests.contract.journal_stage import HOSTILE, a_run, an_effect, child

from resolvent.adapters.journal import connect
from resolvent.adapters.journal.schema import SCHEMAS
from resolvent.adapters.journal.sqlite import path_of
from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.events import RunEnded, RunResumed
from resolvent.errors import Bug, ConfigError, StoreBusy

NOTES = [["CREATE TABLE notes (id {serial}, body TEXT UNIQUE, size DOUBLE PRECISION)"]]
ADD = "INSERT INTO notes (body, size) VALUES (:body, :size)"


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = await Store.open(store_url, busy_s=0.3)
    await opened.migrate("notes", NOTES)
    yield opened
    await opened.close()


async def bodies(store: Store) -> list[str]:
    return [row["body"] for row in await store.read("SELECT body FROM notes ORDER BY id")]


# Reading and writing


async def test_rows_come_back_as_they_went_in(store: Store) -> None:
    at = 1_794_771_510.897_741_3
    assert await store.write(ADD, body=HOSTILE, size=at) == 1
    found = await store.read("SELECT id, body, size, '100% :no ''it''' AS said FROM notes WHERE body = :b", b=HOSTILE)
    assert found == [{"id": 1, "body": HOSTILE, "size": at, "said": "100% :no 'it'"}]
    assert await store.write("UPDATE notes SET size = :size", size=None) == 1
    assert await store.write("DELETE FROM notes WHERE body LIKE '%nothing%'") == 0


async def test_a_transaction_is_kept_whole_or_not_at_all(store: Store) -> None:
    def half(connection: Connection) -> None:
        connection.write(ADD, body="one", size=1.0)
        assert connection.read("SELECT body FROM notes") == [{"body": "one"}]
        raise KeyError("stop here")

    with pytest.raises(KeyError):
        await store.transaction(half)
    assert await bodies(store) == []
    assert await store.transaction(lambda connection: connection.write(ADD, body="two", size=1.0)) == 1
    assert await bodies(store) == ["two"]


async def test_a_row_the_schema_forbids_is_a_bug_and_the_store_goes_on(store: Store) -> None:
    await store.write(ADD, body="one", size=1.0)
    with pytest.raises(Bug):
        await store.transaction(lambda connection: connection.write(ADD, body="one", size=1.0))
    await store.write(ADD, body="two", size=1.0)
    assert await bodies(store) == ["one", "two"]


async def test_a_writer_killed_inside_a_transaction_leaves_nothing_and_blocks_nobody(store: Store) -> None:
    body = """
store = await Store.open(URL)
def half(connection):
    connection.write("INSERT INTO notes (body, size) VALUES ('half', 1.0)")
    say("written"); pause()
await store.transaction(half)
"""
    async with child(store.url, body) as writer:
        assert await writer.says() == "written"
        await writer.kill()
    await asyncio.wait_for(_until_written(store, "whole"), 20)
    assert await bodies(store) == ["whole"]


async def _until_written(store: Store, body: str) -> None:
    # A server takes a moment to notice that its client is dead; `busy_s` is short here.
    while True:
        with contextlib.suppress(StoreBusy):
            await store.write(ADD, body=body, size=1.0)
            return


# Schemas


@pytest.mark.spec("D7")
async def test_a_newer_store_is_refused_with_both_numbers(store_url: str) -> None:
    journal = await connect(store_url)
    await journal.store.write("UPDATE meta SET number = 99 WHERE name = 'schema of journal'")
    await journal.close()
    with pytest.raises(ConfigError, match=f"schema 99; .* up to {len(SCHEMAS)}") as refused:
        await connect(store_url)
    assert refused.value.hint


async def test_an_older_store_is_brought_forward_once_and_keeps_its_rows(store: Store) -> None:
    await store.write(ADD, body="old", size=1.0)
    newer = [*NOTES, ["ALTER TABLE notes ADD COLUMN colour TEXT", "UPDATE notes SET colour = 'red'"]]
    await store.migrate("notes", newer)
    await store.migrate("notes", newer)
    assert await store.read("SELECT body, colour FROM notes") == [{"body": "old", "colour": "red"}]
    with pytest.raises(ConfigError, match=r"notes schema 2; .* up to 1"):
        await store.migrate("notes", NOTES)


async def test_a_migration_that_fails_leaves_the_store_as_it_was(store: Store) -> None:
    with pytest.raises((sqlite3.OperationalError, psycopg.errors.UndefinedTable)):
        await store.migrate("notes", [*NOTES, ["ALTER TABLE notes ADD COLUMN colour TEXT", "DROP TABLE nowhere"]])
    await store.migrate("notes", [*NOTES, ["ALTER TABLE notes ADD COLUMN colour TEXT"]])
    await store.write("UPDATE notes SET colour = 'red'")


async def test_owners_have_schema_numbers_of_their_own(store: Store) -> None:
    await store.migrate("forge", [["CREATE TABLE one (id {serial})"], ["CREATE TABLE two (id {serial})"]])
    await store.migrate("notes", NOTES)
    assert await store.read("SELECT id FROM two") == []


async def test_many_processes_may_open_a_new_store_at_once(store_url: str) -> None:
    body = """
say("ready"); pause()
journal = await connect(URL)
await journal.add_run(a_run(ARGUMENT), subjects=[])
await journal.close()
say("added")
"""
    async with contextlib.AsyncExitStack() as stack:
        children = [await stack.enter_async_context(child(store_url, body, f"run-{nth}")) for nth in range(3)]
        for one in children:
            await one.says()
        for one in children:
            await one.go()
        assert [await one.says() for one in children] == ["added"] * 3
    journal = await connect(store_url)
    assert {run.id for run in await journal.runs()} == {f"run-{nth}" for nth in range(3)}
    await journal.close()


async def test_our_tables_live_beside_those_of_the_durable_library(sqlite_url: str) -> None:
    from dbos._migration import sqlite_migrations

    journal = await connect(sqlite_url)
    with contextlib.closing(sqlite3.connect(path_of(sqlite_url))) as beside:
        for script in sqlite_migrations:
            beside.executescript(script if isinstance(script, str) else ";".join(script))
    await journal.add_run(a_run(), subjects=["issue-7"])
    await journal.close()


async def test_in_postgres_our_tables_have_a_schema_of_their_own(postgres_url: str) -> None:
    await (await connect(postgres_url)).close()
    with psycopg.connect(postgres_url) as plain:
        tables = plain.execute("SELECT schemaname FROM pg_tables WHERE tablename IN ('runs', 'meta', 'events')")
        assert tables.fetchall() == [("resolvent",)] * 3


# When the database is not well


@pytest.mark.spec("D6")
async def test_a_full_disk_loses_nothing_that_was_acknowledged_and_heals(sqlite_url: str) -> None:
    journal = await connect(sqlite_url)
    await journal.add_run(a_run(), subjects=["issue-7"])
    done = an_effect(state="done", result={"url": "u"})
    await journal.save_effect(done)
    (pages,) = await journal.store.read("PRAGMA page_count")
    await journal.store.read(f"PRAGMA max_page_count = {pages['page_count']}")

    with pytest.raises(StoreBusy, match=r"full") as full:
        await journal.add_run(a_run("run-2", title="x" * 1_000_000), subjects=["issue-8"])
    assert full.value.hint.startswith("df -h ")
    with pytest.raises(StoreBusy):
        await journal.save_effect(an_effect("effect-2", marker="x" * 1_000_000))
    with pytest.raises(StoreBusy):
        await journal.tell("run-1", RunEnded(outcome="proven", reason="x" * 1_000_000), at=1.0, key="k")
    assert await journal.effects("run-1") == (done,)
    assert [run.id for run in await journal.runs()] == ["run-1"]
    assert await journal.events() == ()

    await journal.store.read("PRAGMA max_page_count = 1000000")
    await journal.add_run(a_run("run-2", title="x" * 1_000_000), subjects=["issue-8"])
    await journal.tell("run-1", RunResumed(play=2), at=1.0, key="k")
    assert len(await journal.events()) == 1
    await journal.close()


@pytest.mark.spec("D8")
async def test_an_acknowledged_write_is_on_the_disk_and_only_ours_to_read(sqlite_url: str) -> None:
    store = await Store.open(sqlite_url)
    assert await store.read("PRAGMA synchronous") == [{"synchronous": 2}]
    assert await store.read("PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    file = path_of(sqlite_url)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    await store.close()


def hold_sqlite(url: str) -> contextlib.closing[sqlite3.Connection]:
    other = sqlite3.connect(path_of(url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return contextlib.closing(other)


def hold_postgres(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    other = psycopg.connect(url)
    other.execute("LOCK TABLE resolvent.notes IN ACCESS EXCLUSIVE MODE")
    return other


async def test_a_locked_store_is_said_to_be_busy_and_works_again(store: Store) -> None:
    hold: Callable[[str], contextlib.AbstractContextManager[object]]
    hold = hold_sqlite if store.dialect == "sqlite" else hold_postgres
    with hold(store.url):
        with pytest.raises(StoreBusy, match="lock") as busy:
            await store.write(ADD, body="one", size=1.0)
        with pytest.raises(StoreBusy):
            await store.transaction(lambda connection: connection.write(ADD, body="two", size=1.0))
    assert busy.value.hint
    await store.write(ADD, body="three", size=1.0)
    assert await bodies(store) == ["three"]


async def test_a_locked_sqlite_file_can_still_be_read(sqlite_url: str) -> None:
    journal = await connect(sqlite_url)
    await journal.add_run(a_run(), subjects=[])
    with hold_sqlite(sqlite_url):
        assert (await journal.run("run")).id == "run-1"
        assert len(await journal.runs()) == 1
    await journal.close()


async def test_a_lost_connection_is_said_once_and_made_anew(postgres_url: str) -> None:
    journal = await connect(postgres_url)
    await journal.add_run(a_run(), subjects=[])
    _cut_all_connections(postgres_url)
    with pytest.raises(StoreBusy):
        await journal.set_state("run-1", "running")
    await journal.set_state("run-1", "waiting")
    assert (await journal.run("run-1")).state == "waiting"
    await journal.close()


def _cut_all_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        other.execute(f"SELECT pg_terminate_backend(pid, 10000) {others}")


async def test_a_server_that_is_not_there_is_unavailable_and_no_secret_is_told() -> None:
    with pytest.raises(StoreBusy) as away:
        await Store.open("postgresql://me:hunter2@127.0.0.1:1/nowhere")
    assert "hunter2" not in str(away.value)


@pytest.mark.parametrize(
    "url",
    ["", "mysql://x/y", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///a\0b", "postgresql://[", "/x"],
)
async def test_a_url_that_names_no_store_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await Store.open(url)
    assert refused.value.hint


async def test_a_file_that_is_no_database_is_left_alone(sqlite_url: str) -> None:
    file = path_of(sqlite_url)
    file.parent.mkdir()
    file.write_text("precious notes\n" * 100)
    with pytest.raises(ConfigError, match="not a whole SQLite database"):
        await connect(sqlite_url)
    assert file.read_text() == "precious notes\n" * 100


async def test_a_store_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreBusy, match="file"):
        await Store.open(f"sqlite:///{tmp_path}/file/state.db")
    with pytest.raises(StoreBusy, match="unable to open"):
        await Store.open(f"sqlite:///{tmp_path}")


# Waiting for others


async def test_whoever_waits_is_woken_by_another_process(store_url: str) -> None:
    body = """
journal = await connect(URL)
say("ready"); pause()
await journal.set_state("run-1", "running")
say("written"); pause()
"""
    journal = await connect(store_url)
    await journal.add_run(a_run(), subjects=[])
    known = await journal.changed()
    async with child(store_url, body) as writer:
        assert await writer.says() == "ready"
        waiting = asyncio.ensure_future(journal.changed())
        assert not (await asyncio.wait({waiting}, timeout=0.05))[0]
        await writer.go()
        assert await waiting > known
    assert (await journal.run("run-1")).state == "running"
    await journal.close()


async def test_a_write_between_two_calls_is_not_missed(store_url: str) -> None:
    journal, other = await connect(store_url), await connect(store_url)
    await other.add_run(a_run(), subjects=[])
    first = await journal.changed()
    await other.tell("run-1", RunResumed(play=2), at=1.0)
    second = await journal.changed()
    assert second > first
    assert await journal.changed(timeout_s=0.05) == second
    assert await journal.changed(since=first, timeout_s=0.0) == second
    await journal.close()
    await other.close()


async def test_each_write_others_wait_for_wakes_them(store_url: str) -> None:
    from resolvent.domain.decision import Choice, Question

    journal = await connect(store_url)
    seen = [await journal.changed(since=-1)]
    await journal.add_run(a_run(), subjects=[])
    seen.append(await journal.changed())
    await journal.ask("run-1", Question(key="k", text="?", choices=("yes",)), at=1.0)
    for writing in (
        journal.tell("run-1", RunResumed(play=2), at=1.0),
        journal.decide("run-1", "k", Choice(answer="yes", by="", reason="", at=2.0)),
        journal.ask_to_cancel("run-1"),
        journal.set_state("run-1", "waiting"),
        journal.reopen("run-1", subjects=[]),
        journal.end_run("run-1", outcome="proven", reason="", result={}),
    ):
        await writing
        seen.append(await journal.changed())
    assert seen == sorted(set(seen))
    await journal.close()


async def test_several_waiters_are_all_woken_and_none_steals_from_another(store_url: str) -> None:
    journal, other = await connect(store_url), await connect(store_url)
    await other.add_run(a_run(), subjects=[])
    known = await journal.changed()
    waiting = [asyncio.ensure_future(journal.changed(since=known)) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0.05)
    await other.set_state("run-1", "running")
    assert set(await asyncio.gather(*waiting)) == {known + 1}
    assert await journal.changed(since=known) == known + 1
    await journal.close()
    await other.close()


async def test_waiting_costs_nothing_until_someone_writes(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = Store._look

    async def counted(self: Store) -> int:
        nonlocal looks
        looks += 1
        return await look(self)

    monkeypatch.setattr(Store, "_look", counted)
    journals = [await connect(store_url) for _ in range(3)]
    await asyncio.gather(*(journal.changed(timeout_s=0.2) for journal in journals))
    assert looks == 3
    for journal in journals:
        await journal.close()
        await journal.close()


async def test_waiting_can_be_cancelled_and_closing_ends_it(store_url: str) -> None:
    journal = await connect(store_url)
    for end in ("cancel", "close"):
        waiting = asyncio.ensure_future(journal.changed())
        await asyncio.wait({waiting}, timeout=0.05)
        if end == "cancel":
            waiting.cancel()
        else:
            await journal.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_the_wake_file_may_be_removed(sqlite_url: str) -> None:
    journal, other = await connect(sqlite_url), await connect(sqlite_url)
    await other.add_run(a_run(), subjects=[])
    known = await journal.changed()
    waiting = asyncio.ensure_future(journal.changed())
    await asyncio.wait({waiting}, timeout=0.05)
    wake = Path(f"{path_of(sqlite_url)}.wake")
    wake.unlink()
    await asyncio.wait({waiting}, timeout=0.05)
    await other.set_state("run-1", "running")
    assert await waiting == known + 1
    await journal.close()
    await other.close()


async def test_a_bell_that_cannot_be_heard_is_said_and_nothing_else_suffers(sqlite_url: str) -> None:
    await (await connect(sqlite_url)).close()
    wake = Path(f"{path_of(sqlite_url)}.wake")
    wake.unlink()
    wake.mkdir()
    journal = await connect(sqlite_url)
    with pytest.raises(StoreBusy, match="wake"):
        await journal.changed()
    await journal.add_run(a_run(), subjects=[])
    assert len(await journal.runs()) == 1
    await journal.close()


async def test_a_waiter_whose_connection_is_cut_is_told_or_woken_but_never_deaf(postgres_url: str) -> None:
    journal = await connect(postgres_url)
    await journal.add_run(a_run(), subjects=[])
    known = await journal.changed()
    waiting = asyncio.ensure_future(journal.changed())
    await asyncio.wait({waiting}, timeout=0.05)
    _cut_all_connections(postgres_url)
    with pytest.raises(StoreBusy):
        await waiting
    again = asyncio.ensure_future(journal.changed(since=known))
    await asyncio.wait({again}, timeout=0.05)
    other = await connect(postgres_url)
    await other.set_state("run-1", "running")
    try:
        number = await again
    except StoreBusy:
        # Two connections were cut, the one that waits and the one that reads: it may be told of each.
        number = await journal.changed(since=known)
    assert number == known + 1
    await journal.close()
    await other.close()


# Quick to read


def test_reading_a_sqlite_journal_imports_nothing_it_does_not_need(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from resolvent.adapters.journal import connect
async def main():
    journal = await connect(sys.argv[1])
    assert await journal.runs() == ()
    await journal.close()
asyncio.run(main())
heavy = {"psycopg", "sqlalchemy", "dbos", "rich", "typer", "asyncinotify", "jinja2"} & set(sys.modules)
print(sorted(heavy))
"""
    url = f"sqlite:///{tmp_path}/x.db"
    said = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


async def test_no_descriptor_and_no_thread_is_left_behind(store_url: str) -> None:
    import threading

    await (await connect(store_url)).close()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        journal = await connect(store_url)
        await journal.changed(timeout_s=0)
        await journal.close()
    for thread in threading.enumerate():
        if thread.name.startswith("store"):
            thread.join(5)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) <= before
