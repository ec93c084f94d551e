"""The durable-execution library, and nothing else of it anywhere: verbs and plays by id, each recorded once."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

Result = dict[str, Any]
Perform = Callable[[dict[str, Any]], Coroutine[Any, Any, Result]]
Play = Callable[[str], Coroutine[Any, Any, Result]]

# Work of another version is never recovered, so this is never raised; our schema number lives in our own tables.
APPLICATION_VERSION = "1"
EXECUTOR = "local"
ATTACHED_POLL_S = 0.02

_workflows: dict[str, Callable[..., Any]] = {}
_current: list["Durable"] = []


class Durable:
    """At most one per process: the library is a singleton."""

    def __init__(self, url: str, *, perform: Perform, play: Play) -> None:
        self._url = url
        self._perform = perform
        self._play = play
        self._engine: Any = None
        self._library: Any = None

    async def launch(self) -> None:
        """Open the store and take up what was running when the last process ended."""
        from dbos import DBOS

        logging.getLogger("dbos").setLevel(logging.ERROR)
        _register(DBOS)
        self._engine = _store_engine(self._url)
        self._loop = asyncio.get_running_loop()
        _current[:] = [self]
        self._library = DBOS(
            config={
                "name": "resolvent",
                "system_database_url": _library_url(self._url),
                "system_database_engine": self._engine,
                "application_version": APPLICATION_VERSION,
                "executor_id": EXECUTOR,
                "serializer": _json_serializer(),
                "enable_otlp": False,
                "log_level": "ERROR",
            }
        )
        await asyncio.to_thread(DBOS.launch)

    async def verb(self, id: str, request: dict[str, Any]) -> Result:
        """Start the verb, attach to it if it runs, or return what it recorded."""
        return await self._by_id("verb", id, request)

    async def play(self, id: str) -> Result:
        """Start one play of a run, or attach to it."""
        return await self._by_id("play", id, id)

    async def close(self) -> None:
        """Let go of the library; what still runs is taken up by the next launch."""
        from dbos import DBOS

        await self._abandon()
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=0)
        # The library made its own pool the loop's, and has just shut it down.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        self._engine.dispose()
        _current.clear()

    async def _abandon(self) -> None:
        """End what the library still waits for in our loop, without a record.

        It keeps these alive only as long as itself. Collected after that, each would call a thread in the middle of
        whatever runs just then, and wait for ever if that was a call of a thread as well.
        """
        left = [task for task in self._library._workflow_tasks if task.get_loop() is self._loop]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def perform(self, request: dict[str, Any]) -> Result:
        """Do a verb's work."""
        return await self._at_home(self._perform(request))

    async def perform_play(self, id: str) -> Result:
        """Play a run in a context of its own: inside the library's it could start no verb."""
        return await self._at_home(self._play(id))

    async def _at_home(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Recovered work is taken up in a loop of the library's; ours is where semaphores and jobs live."""
        if asyncio.get_running_loop() is self._loop:
            return await self._loop.create_task(work, context=Context())
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_apart(work), self._loop))

    async def _by_id(self, kind: str, id: str, argument: Any) -> Result:
        from dbos import DBOS, SetWorkflowID

        with SetWorkflowID(id):
            handle = await DBOS.start_workflow_async(_workflows[kind], argument)
        result: Result = await handle.get_result(polling_interval_sec=ATTACHED_POLL_S)
        return result


async def _apart(work: Coroutine[Any, Any, Result]) -> Result:
    return await asyncio.get_running_loop().create_task(work, context=Context())


def _register(library: Any) -> None:
    """Name the two workflows once per process; importing this module registers nothing."""
    if _workflows:
        return

    @library.workflow(name="verb", max_recovery_attempts=None)  # type: ignore[untyped-decorator]
    async def verb(request: dict[str, Any]) -> Result:
        return await _current[0].perform(request)

    @library.workflow(name="play", max_recovery_attempts=None)  # type: ignore[untyped-decorator]
    async def play(id: str) -> Result:
        return await _current[0].perform_play(id)

    _workflows.update(verb=verb, play=play)


def _json_serializer() -> Any:
    from dbos._serialization import Serializer

    class Json(Serializer):
        """Records that outlive this Python: JSON, never pickle."""

        def serialize(self, data: Any) -> str:
            return json.dumps(data)

        def deserialize(self, serialized_data: str) -> Any:
            return json.loads(serialized_data)

        def name(self) -> str:
            return "resolvent_json"

    return Json()


def _library_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _store_engine(url: str) -> Any:
    """Our own engine: SQLite in WAL mode, or Postgres as it is."""
    import sqlalchemy

    if not url.startswith("sqlite"):
        return sqlalchemy.create_engine(_library_url(url), pool_pre_ping=True)
    engine = sqlalchemy.create_engine(url, connect_args={"check_same_thread": False, "timeout": 30})

    @sqlalchemy.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        for pragma in ("journal_mode=wal", "synchronous=normal", "busy_timeout=30000"):
            connection.execute(f"pragma {pragma}")

    return engine
