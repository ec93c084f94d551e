"""Tokens that a person who serves a forge gets: made once, kept in files that only they can read."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from resolvent.domain.subject import Permission
from resolvent.errors import UsageError
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.tls import private_file


@dataclass(frozen=True)
class KeptToken:
    """A token and the file it is in; `fresh`: it was made just now."""

    login: str
    token: str
    file: Path
    fresh: bool


async def kept_token(hub: Hub, login: str, permission: Permission) -> KeptToken:
    """The token of that login that was kept, or a new one; the account is made if there is none."""
    if "/" in login or login in ("", ".", ".."):
        raise UsageError(f"{login!r} is no login", hint="resolvent forge serve --repo OWNER/NAME")
    file = hub.forge.path.parent / "tokens" / login
    kept = await asyncio.to_thread(_read, file)
    known = await hub.bearer(kept) if kept else None
    if known is not None and known[0].login == login:
        return KeptToken(login, kept, file, fresh=False)
    if login not in (await hub.holdings()).accounts:
        await hub.account(login, permission=permission)
    token = await hub.token(login)
    await asyncio.to_thread(_write, file, token)
    return KeptToken(login, token, file, fresh=True)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint=f"rm {file}") from error


def _write(file: Path, token: str) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    private_file(file, f"{token}\n".encode())
