"""Where webhooks are listened for, and the secret they are signed with."""

import asyncio
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resolvent.errors import ConfigError, UsageError
from resolvent.wiring import Home

if TYPE_CHECKING:
    from resolvent.intake.webhooks import Webhooks

MIN_SECRET = 16
# Who is told to try later then is the forge, which does, or somebody who is not it.
MAX_AT_ONCE = 500


@dataclass(frozen=True)
class Listener:
    """An open socket, its address, and the secret."""

    socket: socket.socket
    url: str
    secret: str


def listen(home: Home) -> Listener | None:
    """Open what `intake.listen` names; None when it names nothing. ConfigError without a secret that can be kept."""
    address = home.settings.intake.listen
    if not address:
        return None
    secret = _secret(home)
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family, *_, place = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.create_server(place[:2], family=family, backlog=128)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen at {address}: {why}", hint="set intake.listen to another address") from error
    shown = f"[{host}]" if ":" in host else host
    return Listener(opened, f"http://{shown}:{opened.getsockname()[1]}/webhook", secret)


def _secret(home: Home) -> str:
    name = home.settings.intake.secret.removeprefix("$")
    if not name:
        raise ConfigError(
            "intake.listen takes webhooks, and intake.secret does not name what they are signed with",
            hint='set intake.secret = "$RESOLVENT_WEBHOOK_SECRET" in resolvent.toml',
        )
    secret = home.environ.get(name, "")
    if len(secret) < MIN_SECRET or not re.fullmatch(r"[!-~]+", secret):
        raise ConfigError(
            f"intake.secret is read from ${name}, which holds no secret of at least {MIN_SECRET} visible characters",
            hint=f"export {name}=$(openssl rand -hex 32)",
        )
    return secret


async def serve(webhooks: "Webhooks", listener: Listener) -> None:
    """Answer at the listener until cancelled."""
    try:
        from resolvent.answering import answering
    except ModuleNotFoundError as missing:
        told = f"webhooks need the library {missing.name}"
        raise ConfigError(told, hint="pip install '.[github]'  # where you cloned Resolvent") from missing
    async with answering(webhooks, listener.socket, at_once=MAX_AT_ONCE):
        await asyncio.Event().wait()
