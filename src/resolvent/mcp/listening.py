"""Where the HTTP server is reached, and the token it takes. Imports nothing slow, so that mistakes are told at once."""

import ipaddress
import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from resolvent.errors import ConfigError, UsageError

MIN_TOKEN = 16
TOKEN_VARIABLE = "RESOLVENT_MCP_TOKEN"
EXAMPLE = "resolvent mcp --http 127.0.0.1:8000"


class Listener(NamedTuple):
    """An open socket, where it is reached, and who may call."""

    socket: socket.socket
    url: str
    loopback: bool
    token: str


def listen(address: str, *, token: str) -> Listener:
    """Open `host:port`; ConfigError when others than this machine could reach it and there is no token."""
    found = re.fullmatch(r"(?:(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*):)?(\d{1,5})", address)
    if not found or int(found[2]) > 65535:
        raise UsageError(f"{address!a} is not host:port", hint=EXAMPLE)
    host = (found[1] or "127.0.0.1").strip("[]")
    try:
        family, *_, place = socket.getaddrinfo(host, int(found[2]), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no host is called so"
        raise UsageError(f"{host[:200]!a} is no address: {why}", hint=EXAMPLE) from error
    loopback = ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback
    if not loopback and not token:
        raise ConfigError(
            f"others can reach {address}: that takes a token",
            hint=f"(umask 77; openssl rand -hex 32 > token) && resolvent mcp --http {address} --token-file token",
        )
    # The protocol is named because asyncio sends small answers at once only where it is: else each takes 40 ms.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(place)
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise UsageError(f"cannot listen at {address}: {error.strerror}", hint="resolvent mcp --http :0") from error
    shown = f"[{host}]" if ":" in host else host
    return Listener(opened, f"http://{shown}:{opened.getsockname()[1]}/mcp", loopback, token)


def read_token(file: Path | None, *, environ: Mapping[str, str]) -> str:
    """The token of a private file, or of the environment; empty when there is neither."""
    if file is None:
        return _good(environ.get(TOKEN_VARIABLE, ""), where=f"${TOKEN_VARIABLE}")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise ConfigError(f"{file} is no regular file", hint="openssl rand -hex 32 > token; chmod 600 token")
            if about.st_mode & 0o077:
                raise ConfigError(f"{file} can be read by others", hint=f"chmod 600 {file}")
            said = stream.read(4096).decode("latin-1").strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", hint=f"ls -l {file}") from error
    return _good(said or " ", where=str(file))


def _good(token: str, *, where: str) -> str:
    if token and not re.fullmatch(rf"[!-~]{{{MIN_TOKEN},}}", token):
        raise ConfigError(
            f"{where} holds no token: at least {MIN_TOKEN} visible characters", hint="openssl rand -hex 32"
        )
    return token
