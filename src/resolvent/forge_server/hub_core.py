"""What is on the hub now, who is known there, and who listens."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self, get_args

from resolvent.adapters.clock import SystemClock
from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.forges.local_git import Refs
from resolvent.adapters.forges.local_tables import Tables
from resolvent.adapters.git import Git
from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.subject import Permission
from resolvent.errors import ForgeRefused, NotFound
from resolvent.forge_server.holdings import Account, Holdings, Item, Occurrence
from resolvent.forge_server.hub_git import HubGit
from resolvent.forge_server.hub_reading import Place, all_rows, holdings_of, unknown_logins, version_of
from resolvent.ports import Clock

Listener = Callable[[Occurrence], Awaitable[None]]
_RANKS: tuple[Permission, ...] = get_args(Permission)
_ACCOUNT = """
INSERT INTO forge_accounts (login, kind, permission) VALUES (:login, :kind, :permission)
ON CONFLICT (login) DO UPDATE SET kind = excluded.kind, permission = excluded.permission
"""
_TOKEN = "INSERT INTO forge_tokens (digest, login, scopes) VALUES (:digest, :login, :scopes)"
_BEARER = """
SELECT a.*, t.scopes FROM forge_tokens t JOIN forge_accounts a ON a.login = t.login WHERE t.digest = :digest
"""
_NOTE = """
INSERT INTO forge_facts (name, fact) VALUES (:name, :fact) ON CONFLICT (name) DO UPDATE SET fact = excluded.fact
"""


class HubCore(HubGit):
    """One repository on a local forge; what is written is told to who listens."""

    def __init__(self, forge: LocalForge, store: Store, *, owner: str, name: str, clock: Clock) -> None:
        super().__init__(Git(forge.path))
        self.forge = forge
        self.store = store
        self.owner = owner
        self.name = name
        self.clock = clock
        self.tables = Tables(store, clock)
        self._refs = Refs(self.git)
        self._kept: Holdings | None = None
        self._listeners: list[Listener] = []
        self._owns_store = False

    @classmethod
    async def open(cls, directory: Path, *, owner: str, name: str, clock: Clock | None = None) -> Self:
        """The hub of a directory, with its store and repository inside; made if it is new."""
        place = await asyncio.to_thread(_made, directory)
        store = await Store.open(f"sqlite:///{place}/hub.db")
        try:
            hub = await cls.over(store, directory, owner=owner, name=name, clock=clock)
        except BaseException:
            await store.close()
            raise
        hub._owns_store = True
        return hub

    @classmethod
    async def over(cls, store: Store, directory: Path, *, owner: str, name: str, clock: Clock | None = None) -> Self:
        """The hub over a local forge that is there already: the same tables, the same repository."""
        clock = clock or SystemClock()
        forge = await LocalForge.open(store, directory, login=owner, clock=clock)
        hub = cls(forge, store, owner=owner, name=name, clock=clock)
        if await hub.note("created_at") is None:
            await hub.set_note("created_at", str(clock.now()))
        if owner not in (await hub.holdings()).accounts:
            await hub.account(owner, permission="admin")
        return hub

    async def close(self) -> None:
        """Let go of the store, if it is the hub's own."""
        if self._owns_store:
            await self.store.close()

    async def holdings(self) -> Holdings:
        """Everything now; the same object again while no row and no ref is another."""
        refs, head = await self._refs.read(), await asyncio.to_thread(self._default_branch)
        (row,) = await self.store.read("SELECT number FROM forge_version")
        kept = self._kept
        if kept is not None and kept.version == version_of(row["number"], head, refs):
            return kept
        # What git merged or removed behind our back is written down first.
        await self.forge.pulls("all")
        rows = await self.store.transaction(all_rows)
        if strangers := unknown_logins(rows):
            # Who wrote here before there were accounts is somebody all the same.
            await self.tables.change(lambda connection, at: _introduce(connection, strangers))
            rows = await self.store.transaction(all_rows)
        self._kept = holdings_of(rows, Place(self.owner, self.name, head, refs))
        return self._kept

    def _default_branch(self) -> str:
        """The branch that HEAD names, without a git for it: this is asked before every answer."""
        said = (self.git.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()
        return said.removeprefix("ref:").strip().removeprefix("refs/heads/")

    # --- accounts and tokens

    async def account(
        self, login: str, *, kind: Literal["User", "Bot", "Organization"] = "User", permission: Permission = "write"
    ) -> Account:
        """The account with that login, made or changed to be so."""
        if permission not in get_args(Permission):
            raise ForgeRefused(f"{permission!r} is no permission")
        said = {"login": login, "kind": kind, "permission": permission}
        await self.tables.change(lambda connection, at: connection.write(_ACCOUNT, **said))
        return (await self.holdings()).accounts[login]

    async def token(
        self, login: str, *, scopes: Sequence[str] = ("repo", "workflow", "read:org"), prefix: str = "ghp_"
    ) -> str:
        """A new token for that login; only its digest is kept. `ghs_` is for what an App is lent."""
        if login not in (await self.holdings()).accounts:
            raise NotFound(f"there is no account {login!r}")
        token = f"{prefix}{secrets.token_hex(18)}"
        said = {"digest": _digest(token), "login": login, "scopes": " ".join(scopes)}
        await self.tables.change(lambda connection, at: connection.write(_TOKEN, **said))
        return token

    async def bearer(self, token: str) -> tuple[Account, tuple[str, ...]] | None:
        """Who that token is, and what it is good for."""
        rows = await self.store.read(_BEARER, digest=_digest(token))
        if not rows:
            return None
        scopes = tuple(str(rows[0].pop("scopes")).split())
        return Account(**rows[0]), scopes

    # --- notes: what else belongs to the repository and has no table (hooks, apps, …), as text under a name

    async def note(self, name: str) -> str | None:
        """What was noted under that name."""
        rows = await self.store.read("SELECT fact FROM forge_facts WHERE name = :name", name=name)
        return str(rows[0]["fact"]) if rows else None

    async def set_note(self, name: str, text: str) -> None:
        """Note this from now on."""
        await self.tables.change(lambda connection, at: connection.write(_NOTE, name=name, fact=text))

    # --- for who writes

    def listen(self, heard: Listener) -> None:
        """Have this called after every write."""
        self._listeners.append(heard)

    async def tell(self, occurrence: Occurrence) -> None:
        """Let everybody who listens know."""
        for heard in tuple(self._listeners):
            await heard(occurrence)

    async def item(self, number: int, kind: Literal["issue", "pull", ""] = "") -> Item:
        """The issue or pull request with that number; NotFound if there is none."""
        found = (await self.holdings()).items.get(number)
        if found is None or kind not in ("", found.kind):
            raise NotFound(f"there is no {kind or 'item'} #{number}", hint="resolvent issue ls")
        return found

    async def allow(self, by: Account, needed: Permission, *, own: str = "") -> None:
        """Let it be done by who may do that much, or to what is their own; ForgeRefused otherwise."""
        if (await self.holdings()).archived:
            raise ForgeRefused("Repository was archived so is read-only.", status=403)
        if _RANKS.index(by.permission) < _RANKS.index(needed) and by.login != own:
            raise ForgeRefused(f"Must have {needed} rights to Repository.", status=403)


def _introduce(connection: Connection, logins: Sequence[str]) -> None:
    for login in logins:
        sql = "INSERT INTO forge_accounts (login, kind, permission) VALUES (:login, 'User', 'read')"
        connection.write(f"{sql} ON CONFLICT DO NOTHING", login=login)


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory.absolute()


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
