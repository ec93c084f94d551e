"""Where things lie on this machine. Imports nothing that is slow, so that a glance needs no more than this."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from resolvent.errors import ConfigError


def environment() -> dict[str, str]:
    """The variables of this process; everything else is handed them."""
    return dict(os.environ)


def skip_plugins() -> None:
    """Let our model library load no plugins: looking for them reads the metadata of every installed package."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def configuration_files(directory: Path, *, environ: Mapping[str, str]) -> list[Path]:
    """The files that configure a repository, the weakest first; none of them need exist."""
    user = _home(environ, "XDG_CONFIG_HOME", ".config")
    own = [directory.absolute() / name for name in ("resolvent.toml", "resolvent.local.toml")]
    return [user / "resolvent/config.toml", *own] if user else own


def state_directory(repository: Path, *, environ: Mapping[str, str]) -> Path:
    """The private directory of a repository's state, made if need be; ConfigError when it is somebody else's."""
    named = environ.get("RESOLVENT_HOME")
    if named:
        place = Path(named)
    else:
        state = _home(environ, "XDG_STATE_HOME", ".local/state")
        path = os.fsencode(repository.resolve())
        name = re.sub(r"[^\w.-]+", "-", repository.resolve().name, flags=re.ASCII).strip("-.")[:40] or "repository"
        place = (state or Path()) / "resolvent" / f"{name}-{hashlib.sha256(path).hexdigest()[:10]}"
    if not place.is_absolute():
        raise ConfigError(
            "there is no place for our state: neither $RESOLVENT_HOME nor $HOME is an absolute path",
            hint="export RESOLVENT_HOME=/absolute/path",
        )
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(f"{place} belongs to another user", hint="export RESOLVENT_HOME=$HOME/.resolvent")
        place.chmod(0o700)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{place} cannot hold our state: {why}", hint="export RESOLVENT_HOME=…") from error
    return place


def store_file(state: Path) -> Path:
    """The store of a repository whose configuration names no other."""
    return state / "resolvent.db"


def _home(environ: Mapping[str, str], variable: str, otherwise: str) -> Path | None:
    for named, below in ((environ.get(variable), "."), (environ.get("HOME"), otherwise)):
        # A relative one is to be ignored, says the XDG specification.
        if named and Path(named).is_absolute():
            return Path(named) / below
    return None
