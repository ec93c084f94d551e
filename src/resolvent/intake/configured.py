"""The configuration intake goes by: that of the forge's default branch, never of a checkout or of a change."""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from resolvent.app import App
from resolvent.domain.arrival import Rules
from resolvent.engine.prompts import OVERRIDES, collect
from resolvent.errors import UsageError
from resolvent.settings import Settings, load
from resolvent.wiring import Home

FILE, LOCAL = "resolvent.toml", "resolvent.local.toml"


@dataclass(frozen=True)
class Configured:
    """What the default branch says, at one commit of it."""

    commit: str
    app: App
    rules: Rules


class Configuration:
    """Read anew whenever the default branch moved; where this process works is as whoever started it says."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: Configured | None = None
        self._own = b""

    @property
    def rules(self) -> Rules:
        """Those read last; before that, those of whoever started this."""
        return self._known.rules if self._known else _rules(self._home.settings)

    async def now(self) -> Configured:
        """What the default branch says now; ConfigError names the file and key that are wrong there."""
        commit, own = await self._tip(), await asyncio.to_thread(_bytes, self._home.repository / LOCAL)
        if self._known is None or self._known.commit != commit or self._own != own:
            place = await self._read(commit, own)
            settings = self._merged(load(place, environ=self._home.environ, overrides=self._home.overrides))
            home = replace(self._home, settings=settings, configured=place)
            self._known, self._own = Configured(commit, App(home), _rules(settings)), own
        return self._known

    async def _tip(self) -> str:
        forge = await self._home.forge()
        if self._home.settings.forge.kind == "local":
            # That is how this forge learns what its default branch is.
            return (await forge.sync(self._home.repository)).commit
        branch = await forge.default_branch()
        commit = await forge.head_of(branch)
        if commit is None:
            raise UsageError(f"the forge has no branch {branch}", hint=f"git push origin {branch}")
        return commit

    async def _read(self, commit: str, own: bytes) -> Path:
        """The files of that commit that configure us, beside what this machine's own file says."""
        forge, repository = await self._home.forge(), await self._home.git_repository()
        change = await repository.change(await forge.fetch(repository.upstream, commit))
        names = [FILE, *(f"{OVERRIDES}/{step}.md" for step in collect())]
        found = {name: text for name, text in (await repository.contents(change, names)).items() if text is not None}
        place = self._home.state / "intake" / commit
        await asyncio.to_thread(_write, place, {**found, **({LOCAL: own} if own else {})})
        return place

    def _merged(self, said: Settings) -> Settings:
        """What a run is made of comes from the branch; where and as whom we work, from whoever started us."""
        own = self._home.settings
        intake = {name: getattr(own.intake, name) for name in ("poll", "listen", "secret")}
        ours = {name: getattr(own, name) for name in ("forge", "sandbox", "store", "directory")}
        return said.model_copy(update={**ours, "intake": said.intake.model_copy(update=intake)})


def _rules(settings: Settings) -> Rules:
    said = settings.intake
    return Rules(label=said.label, mention=said.mention, allow=said.allow, logins=said.logins)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _write(place: Path, files: Mapping[str, bytes]) -> None:
    """Exactly these files, alone: those of other commits are of no use any more."""
    if place.parent.exists():
        shutil.rmtree(place.parent)
    place.mkdir(mode=0o700, parents=True)
    for name, text in files.items():
        (place / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / name).write_bytes(text)
