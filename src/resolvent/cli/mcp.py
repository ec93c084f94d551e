"""resolvent mcp: the branch server, for skills and other clients of the Model Context Protocol."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.options import Directory
from resolvent.cli.root import app

if TYPE_CHECKING:
    from resolvent.exploring import Explorer


@app.command()
def mcp(
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP there; port 0 takes a free one.")
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Let in who sends this bearer token.", show_default=False),
    ] = None,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Let agents run as you, without a sandbox.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated.")
    ] = None,
    directory: Directory = None,
) -> None:
    """Serve branches to agents: parallel_explore, get_branch, branch_output and more, as MCP tools.

    Speaks over standard input and output unless --http names an address. On this machine your own processes may call;
    any other address takes a token, from --token-file or $RESOLVENT_MCP_TOKEN. Branches and agents outlive the server.
    """
    from resolvent.cli.place import run

    run(_serve(directory, tuple(settings or ()), http=http, token_file=token_file, unsafe=unsafe))


async def _serve(
    directory: Path | None, overrides: tuple[str, ...], *, http: str, token_file: Path | None, unsafe: bool
) -> None:
    from resolvent.cli.place import opened
    from resolvent.errors import ConfigError
    from resolvent.mcp.listening import listen, read_token
    from resolvent.places import environment

    listener = listen(http, token=read_token(token_file, environ=environment())) if http else None
    async with opened(directory, overrides) as app:
        try:
            from resolvent.exploring import Explorer
            from resolvent.mcp.serving import serve_http
        except ModuleNotFoundError as missing:
            told = f"the branch server needs the library {missing.name}"
            raise ConfigError(told, hint="pip install '.[mcp]'  # where you cloned Resolvent") from missing
        explorer = await Explorer.open(app.home, unsafe=unsafe)
        try:
            if listener is None:
                await _speak(explorer)
            else:
                await explorer.prepare()
                print(listener.url, flush=True)
                await serve_http(explorer, listener)
        finally:
            await explorer.close()


async def _speak(explorer: "Explorer") -> None:
    """Over standard input, which is read in a thread that nothing can interrupt: so the end is without ceremony."""
    import asyncio
    import signal
    import sys

    from resolvent.cli.following import leave
    from resolvent.cli.terminal import clean, stderr
    from resolvent.errors import ResolventError
    from resolvent.mcp.listening import EXAMPLE
    from resolvent.mcp.serving import serve_stdio

    if sys.stdin.isatty():
        stderr().say(f"speaking MCP over standard input, which is for programs; for HTTP: {EXAMPLE}")
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave, 0)
    code = 1
    try:
        await serve_stdio(explorer)
        code = 0
    except ResolventError as error:
        stderr().say(f"error: {clean(error.message)}")
        code = error.exit_code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        leave(code)
