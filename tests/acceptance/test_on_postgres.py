"""The same run with the record in a real Postgres: through the same code, killed in the middle like on SQLite."""

from collections.abc import Iterator

import pytest

from resolvent.testing.postgres import PostgresServer, postgres_binaries, postgres_server

from .conftest import HONEST
from .process import Place


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    if postgres_binaries() is None:
        pytest.skip("no Postgres binaries on this machine")
    with postgres_server() as server:
        yield server


@pytest.mark.spec("D8")
def test_a_run_on_postgres_ends_proven_though_its_worker_was_killed(place: Place, postgres: PostgresServer) -> None:
    place.extra["STORE"] = postgres.emptied()
    started, gate = place.shared / "started", place.shared / "gate"
    for fifo in (started, gate):
        place.fifo(fifo)
    place.agent(f'[ "$RESOLVENT_STEP" = implement ] && {{ echo here > {started}; read x < {gate}; }}\n{HONEST}')
    with (place.project / "resolvent.local.toml").open("a") as config:
        config.write('\n[store]\nurl = "$STORE"\n')
    assert place("issue", "new", "The value is bad", "--body", "It should be good.").code == 0
    process = place.start("resolve", "1")
    assert started.read_text() == "here\n"
    process.kill()
    process.wait()
    gate.write_text("go\n")
    said = place("watch", "--json")
    assert said.code == 0, said.err
    assert said.json["outcome"] == "proven"
    assert len(list((place.directory / "state/jobs").glob("*edit.implement*"))) == 1
    assert [run["outcome"] for run in place("runs", "--json").json] == ["proven"]
