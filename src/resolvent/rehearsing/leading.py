"""Where a rehearsed run is led: its configuration and its environment, with nothing of the real forge in them."""

import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resolvent.engine.prompts import OVERRIDES
from resolvent.errors import ConfigError
from resolvent.rehearsing.rehearsal import Rehearsal
from resolvent.settings_sections import FORGE_TOKENS

TOKEN = "RESOLVENT_REHEARSAL_TOKEN"
FILES = ("resolvent.toml", "resolvent.local.toml")
# How soon a run looks whether CI is done: here it is at once.
POLL_S = 0.2


def led(rehearsal: Rehearsal, url: str, ca: Path) -> dict[str, dict[str, Any]]:
    """The settings that lead to the rehearsal forge and to no other, and keep the record apart."""
    forge = {"kind": "github", "repo": rehearsal.repo, "api": f"{url}/api/v3", "ca": str(ca), "token": f"${TOKEN}"}
    return {
        # Whatever else the real one was reached by is not reached for.
        "forge": forge | {"app": "", "installation": 0, "private_key": "", "poll": POLL_S},
        "store": {"url": ""},
    }


def flags(settings: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The same for `--set`."""
    return tuple(
        f"{section}.{name}={_toml(value)}" for section, said in settings.items() for name, value in said.items()
    )


def environment(environ: Mapping[str, str], rehearsal: Rehearsal, *, token: str) -> dict[str, str]:
    """The variables of the run: none that holds a secret of the real forge, under whatever name, whole or in part."""
    real = [environ[name] for name in (*FORGE_TOKENS, *rehearsal.withheld) if environ.get(name)]
    kept = {name: value for name, value in environ.items() if not any(secret in value for secret in real)}
    spared = [kept.pop(name, "") for name in ("NO_PROXY", "no_proxy")]
    here = ",".join(filter(None, (*spared, "localhost", "127.0.0.1")))
    return kept | {"NO_PROXY": here, "no_proxy": here, "RESOLVENT_HOME": str(rehearsal.state), TOKEN: token}


def configure(rehearsal: Rehearsal, settings: Mapping[str, Any], *, checkout: Path | None) -> None:
    """Let the copy be configured as the person's own checkout is, if there is one, and led to the rehearsal.

    Whoever types a command in the copy later is led there too.
    """
    project = rehearsal.project
    if checkout is not None:
        _take_over(checkout, project)
    local = _read(project / FILES[1])
    for section, said in settings.items():
        local[section] = {**(local.get(section) or {}), **said}
    text = "".join(f"{json.dumps(name)} = {_toml(value)}\n" for name, value in local.items())
    (project / FILES[1]).write_text(f"# Written by `resolvent rehearse`.\n{text}", encoding="utf-8")
    excluded = project / ".git" / "info" / "exclude"
    excluded.parent.mkdir(exist_ok=True)
    excluded.write_text(f"/{FILES[1]}\n", encoding="utf-8")


def _take_over(checkout: Path, project: Path) -> None:
    """Its settings and prompts as they are now, committed or not: a run in it would obey them as well."""
    for name in FILES:
        (project / name).unlink(missing_ok=True)
        if (checkout / name).is_file():
            shutil.copyfile(checkout / name, project / name)
    if (checkout / OVERRIDES).is_dir():
        shutil.rmtree(project / OVERRIDES, ignore_errors=True)
        shutil.copytree(checkout / OVERRIDES, project / OVERRIDES)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() and not path.is_symlink() else {}
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint="resolvent doctor") from error


def _toml(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(name))} = {_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str | bool):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return str(value)
