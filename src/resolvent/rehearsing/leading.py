"""Where a rehearsed run is led, and as whom: settings and variables with nothing of the real forge in them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resolvent.forge_server.holdings import Account
from resolvent.forge_server.hub import Hub
from resolvent.rehearsing.rehearsal import Rehearsal
from resolvent.settings_sections import FORGE_TOKENS

TOKEN = "RESOLVENT_REHEARSAL_TOKEN"
# How soon a run looks whether CI is done: here it is at once.
POLL_S = 0.2
_KEY_BITS = 2048


@dataclass(frozen=True)
class Identity:
    """How a run is known on the rehearsal forge: what its settings say of that, and the secret they name."""

    secret: str = field(repr=False)
    token: str = f"${TOKEN}"
    app: str = ""
    installation: int = 0
    private_key: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Each of them said: whatever else the real forge was reached by is not reached for."""
        return {name: getattr(self, name) for name in ("token", "app", "installation", "private_key")}


async def identity(hub: Hub, account: Account) -> Identity:
    """An identity for this one time: a token, or for an App, which no token is, a key of its own."""
    if account.kind != "Bot":
        return Identity(await hub.token(account.login))
    from resolvent.forge_server.rest.apps import register

    private, public = await asyncio.to_thread(_keys)
    slug = account.login.removesuffix("[bot]")
    app = await register(hub, slug, public_key=public, permission=account.permission)
    return Identity(private, token="", app=str(app.id), installation=app.installation, private_key=f"${TOKEN}")


def _keys() -> tuple[str, str]:
    """A private key and its public half."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private.decode(), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def led(rehearsal: Rehearsal, url: str, ca: Path, known: Identity) -> dict[str, dict[str, Any]]:
    """The settings that lead to the rehearsal forge and to no other, and keep the record apart."""
    forge = {"kind": "github", "repo": rehearsal.repo, "api": f"{url}/api/v3", "ca": str(ca), "poll": POLL_S}
    return {"forge": forge | known.settings, "store": {"url": ""}}


def environment(environ: Mapping[str, str], rehearsal: Rehearsal, *, token: str) -> dict[str, str]:
    """The variables of the run: none that holds a secret of the real forge, under whatever name, whole or in part."""
    real = [environ[name] for name in (*FORGE_TOKENS, *rehearsal.withheld) if environ.get(name)]
    kept = {name: value for name, value in environ.items() if not any(secret in value for secret in real)}
    spared = [kept.pop(name, "") for name in ("NO_PROXY", "no_proxy")]
    here = ",".join(filter(None, (*spared, "localhost", "127.0.0.1")))
    return kept | {"NO_PROXY": here, "no_proxy": here, "RESOLVENT_HOME": str(rehearsal.state), TOKEN: token}
