"""The sections of resolvent.toml: every key, its type and its default."""

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from resolvent.domain.model import Value
from resolvent.domain.policy import Policy
from resolvent.domain.prices import Price
from resolvent.domain.subject import Permission

BUILT_IN = ("claude", "codex")
FORGE_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "GITLAB_TOKEN")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


def _seconds(value: object) -> object:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])", value, re.ASCII) if isinstance(value, str) else None
    if found:
        return float(found[1]) * _SECONDS[found[2]]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError('must be a duration: "90s", "30m", "2h", "1d" or a number of seconds')
    return value


def _bytes(value: object) -> object:
    found = re.fullmatch(r"(\d{1,9})([KMGT]?)(?:i?B)?", value, re.ASCII) if isinstance(value, str) else None
    if found:
        return int(found[1]) * _BYTES[found[2]]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError('must be a size: "512M", "4G" or a number of bytes')
    return value


def _named_secret(value: str) -> str:
    if value and not re.fullmatch(rf"\${_NAME}", value):
        raise ValueError('holds a secret: name a variable instead, as in "$GITHUB_TOKEN"')
    return value


def _repository(value: str) -> str:
    if value and not re.fullmatch(r"[\w.-]+/[\w.-]+", value, re.ASCII):
        raise ValueError('must be "owner/name"')
    return value


def _store_url(value: str) -> str:
    if not value or re.fullmatch(rf"\${_NAME}", value):
        return value
    try:
        parts = urlsplit(value)
        secret = parts.password or {"password", "sslpassword"} & parse_qs(parts.query).keys()
    except ValueError:
        raise ValueError("is not a URL") from None
    if secret:
        raise ValueError('holds a password: name a variable that holds the URL instead, as in "$DATABASE_URL"')
    if parts.scheme not in ("sqlite", "postgresql", "postgres"):
        raise ValueError('must be "sqlite:////path/file.db", "postgresql://…" or "$NAME"')
    return value


def _host_and_port(value: str) -> str:
    host = r"(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+|\[[0-9A-Fa-f:.]+\]"
    found = re.fullmatch(rf"(?:private!)?(?:{host}):(\d{{1,5}})", value, re.ASCII)
    if not found or not 0 < int(found[1]) < 65536:
        raise ValueError('must be "host:port", as in "api.example.com:443", or "private!host:port" for one of your own')
    return value.lower()


def _base_url(value: str) -> str:
    found = re.fullmatch(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[\w./-]*)?", value, re.ASCII)
    if value and not found:
        raise ValueError('must be a base URL without secrets, as in "https://api.example.com"')
    return value.rstrip("/")


def _absolute(value: str) -> str:
    if not value.startswith(("/", "~/")) or "\0" in value:
        raise ValueError('must be absolute, or begin with "~/"')
    return value


def _absolute_or_none(value: str) -> str:
    return _absolute(value) if value else value


def _listening(value: str) -> str:
    return _host_and_port(value).removeprefix("private!") if value else value


def _allowed(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise ValueError("must hold names of variables, never values")
    if name in FORGE_TOKENS:
        raise ValueError(f"must not hold {name}: a forge token never enters an agent's process")
    if name in ("HOME", "TMPDIR") or name.startswith("RESOLVENT_"):
        raise ValueError(f"must not hold {name}: every agent is given its own")
    return name


def _named(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        _allowed(name)
    return variables


Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=30 * 86400, allow_inf_nan=False)]
Patience = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=30 * 86400, allow_inf_nan=False)]
Size = Annotated[int, BeforeValidator(_bytes), Field(gt=0)]


class ForgeSettings(Value):
    """Where issues and pull requests live."""

    kind: Literal["local", "github"] = "local"
    repo: Annotated[str, AfterValidator(_repository)] = ""
    token: Annotated[str, AfterValidator(_named_secret)] = ""
    trusted_logins: tuple[str, ...] = ()
    # Another server than github.com, and a file with the certificates it is known by.
    api: Annotated[str, AfterValidator(_base_url)] = ""
    ca: Annotated[str, AfterValidator(_absolute_or_none)] = ""
    # In place of a token: an App, where it is installed, and the variable that holds its private key.
    app: str = Field(default="", pattern=r"^[A-Za-z0-9.]*$")
    installation: int = Field(default=0, ge=0)
    private_key: Annotated[str, AfterValidator(_named_secret)] = ""
    # How often it is asked whether CI is done.
    poll: Duration = 15.0
    # API calls of an hour that are left to people and other programs.
    reserve: int = Field(default=500, ge=0)


class IntakeSettings(Value):
    """Which issues `serve` takes up by itself, and how it hears of them."""

    # An issue with this label is taken up; so is one where an allowed person mentions this login.
    label: str = "resolvent"
    mention: str = "resolvent"
    # Who may ask by a mention: whoever may do at least this there, and these logins.
    allow: Permission = "write"
    logins: tuple[str, ...] = ()
    # How often the forge is asked for news; 0: never, there are webhooks.
    poll: Patience = 60.0
    # Where webhooks are listened for, and the variable with the secret that signs them; empty: nowhere.
    listen: Annotated[str, AfterValidator(_listening)] = ""
    secret: Annotated[str, AfterValidator(_named_secret)] = ""


class CheckSettings(Value):
    """The commands that prove a change; an empty one is not run."""

    build: str = ""
    test: str = ""
    smoke: str = ""
    timeout: Duration = 3600.0
    ci_required: bool = True
    ci_wait: Patience = 1800.0

    @property
    def commands(self) -> dict[Literal["build", "test", "smoke"], str]:
        """Those that are configured, in the order they are run."""
        every: dict[Literal["build", "test", "smoke"], str] = {
            "build": self.build,
            "test": self.test,
            "smoke": self.smoke,
        }
        return {kind: command for kind, command in every.items() if command.strip()}


class AgentDefinition(Value):
    """One agent: the program that is started and what it may take."""

    use: Literal["command", "scripted", "claude", "codex", "acp"] | None = None
    command: tuple[str, ...] = ()
    env: tuple[Annotated[str, AfterValidator(_allowed)], ...] = ()
    model: str = ""
    # Another server for its model, and the variable that holds the key for it.
    endpoint: Annotated[str, AfterValidator(_base_url)] = ""
    key: Annotated[str, AfterValidator(_named_secret)] = ""
    # Variables with their values; {endpoint}, {key} and {model} in them stand for what the agent is given of these.
    variables: Annotated[dict[str, str], AfterValidator(_named)] = {}
    # The method by which an ACP agent wants to be logged in, where it wants that.
    authenticate: str = ""
    # Who made its model, and whose quota it uses; its own name unless said.
    family: str = ""
    account: str = ""
    # Dollars for one job, and who takes its place when it cannot be had.
    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    fallback: str = ""
    wall: Duration | None = None
    idle: Duration | None = None
    output: Size = 64 << 20
    # Paths of the host its box shows besides the system and what the command names.
    reads: tuple[Annotated[str, AfterValidator(_absolute)], ...] = ()
    writes: tuple[Annotated[str, AfterValidator(_absolute)], ...] = ()


class AgentSettings(Value):
    """Who plays which role, and the agents there are besides the built-in ones."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, AgentDefinition]

    writer: str = "claude"
    reader: str = "codex"
    arbiter: str = ""

    @property
    def defined(self) -> dict[str, AgentDefinition]:
        """By name; a definition of a built-in name changes that agent."""
        return {name: AgentDefinition() for name in BUILT_IN} | (self.__pydantic_extra__ or {})


class SandboxSettings(Value):
    """What a branch may reach and take."""

    rung: Literal["auto", "overlay", "memory", "copy", "landlock", "plain"] = "auto"
    network: tuple[Annotated[str, AfterValidator(_host_and_port)], ...] = ()
    # Directories of the host that jobs see read-only, such as the tools in a person's home.
    reads: tuple[Annotated[str, AfterValidator(_absolute)], ...] = ()
    cpu: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory: Size | None = None
    disk: Size | None = None
    processes: int = Field(default=1024, ge=1)
    wall: Duration = 7200.0
    # How long the branches of an ended run stay, and how much all branches may take together.
    keep: Patience = 7 * 86400.0
    quota: Size | None = None


class StoreSettings(Value):
    """Where the record is kept; empty is a SQLite file in the state directory."""

    url: Annotated[str, AfterValidator(_store_url)] = ""


class LimitSettings(Value):
    """How much happens at once, and what a run may cost."""

    agents: int = Field(default=4, ge=1, le=1000)
    checks: int = Field(default=2, ge=1, le=1000)
    runs: int = Field(default=4, ge=1, le=1000)
    # Dollars: for one run, and for all runs of a day.
    cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    cost_day_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    # How long an agent is asked again whose model does not say when it will be there, before a person is asked.
    patience: Patience = 1800.0


class PriceSettings(Value):
    """What a million tokens of a model cost, by its name or how it begins."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Price]

    @property
    def own(self) -> dict[str, Price]:
        """Those a person set."""
        return self.__pydantic_extra__ or {}


class Settings(Value):
    """Everything a person may set; `directory` is the repository it was read for."""

    forge: ForgeSettings = ForgeSettings()
    intake: IntakeSettings = IntakeSettings()
    checks: CheckSettings = CheckSettings()
    agents: AgentSettings = AgentSettings()
    policy: Policy = Policy()
    sandbox: SandboxSettings = SandboxSettings()
    store: StoreSettings = StoreSettings()
    limits: LimitSettings = LimitSettings()
    prices: PriceSettings = PriceSettings()
    directory: Path = Path()
