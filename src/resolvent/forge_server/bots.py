"""Bots: accounts that answer what is written on the hub by a script; late, wrongly or on another commit if told so.

login = "codex[bot]"

[[answers]]
contains = "@codex review"
kind = "review"
body = "Nothing to object at {commit}."
held = true
"""

import asyncio
import tomllib
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, ValidationError

from resolvent.domain.model import Value
from resolvent.domain.subject import Permission
from resolvent.errors import ConfigError, ResolventError
from resolvent.forge_server.holdings import Account, Item, Occurrence
from resolvent.forge_server.hub import Hub, Noted, Opining


class LineSaid(Value):
    """What a review says of one line."""

    path: str
    line: int = Field(ge=1)
    body: str


class BotAnswer(Value):
    """What a bot does when something happens: `on` is `event.action` of a webhook, or `event` for all its actions."""

    on: str = "issue_comment.created"
    # In the comment, or in the title or body when there is none.
    contains: str = ""
    kind: Literal["comment", "review", "reaction"] = "comment"
    # {number}, {commit} and {author} are filled in; everything else is said as it stands, sense or not.
    body: str = ""
    opinion: Literal["approve", "request_changes", "comment"] = "comment"
    reaction: str = "eyes"
    remarks: tuple[LineSaid, ...] = ()
    # The head when it answers, the head when it was asked, or that one's parent: a stale review.
    commit: Literal["head", "asked", "parent"] = "head"
    # How many things have to happen first, and whether somebody has to let it go.
    after_events: int = Field(default=0, ge=0)
    held: bool = False
    times: int | None = Field(default=None, ge=0)

    def matches(self, occurrence: Occurrence) -> bool:
        """This is what it answers to."""
        if self.on not in (occurrence.kind, f"{occurrence.kind}.{occurrence.action}") or occurrence.item is None:
            return False
        remark, item = occurrence.remark, occurrence.item
        return self.contains in (remark.body if remark else f"{item.title}\n{item.body}")


class BotScript(Value):
    """A bot and everything it does."""

    login: str = Field(min_length=1)
    permission: Permission = "write"
    answers: tuple[BotAnswer, ...] = Field(min_length=1)

    @classmethod
    def read(cls, text: str) -> "BotScript":
        """From TOML; ConfigError says what is wrong with it."""
        try:
            return cls.model_validate(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, ValidationError) as error:
            raise ConfigError(f"this is no script of a bot: {error}", hint="see resolvent.forge_server.bots") from error


@dataclass
class _Due:
    """An answer that was asked for and is not given yet."""

    bot: Account
    answer: BotAnswer
    occurrence: Occurrence
    events: int
    held: bool

    @property
    def ready(self) -> bool:
        return not self.events and not self.held


@dataclass
class Bots:
    """The bots of a hub; they answer one after another, never within the write that they answer to."""

    hub: Hub
    # What could not be said, because the forge refused it.
    refused: list[ResolventError] = field(default_factory=list)
    _scripts: list[tuple[BotScript, Account, list[int]]] = field(default_factory=list)
    _waiting: list[_Due] = field(default_factory=list)
    _due: asyncio.Queue[_Due] = field(default_factory=asyncio.Queue)

    @property
    def scripts(self) -> tuple[BotScript, ...]:
        return tuple(script for script, _, _ in self._scripts)

    @property
    def waiting(self) -> int:
        """How many answers were asked for and wait for an event or for somebody to let them go."""
        return len(self._waiting)

    async def add(self, script: BotScript) -> Account:
        """A bot that answers from now on."""
        account = await self.hub.account(script.login, kind="Bot", permission=script.permission)
        self._scripts.append((script, account, [0] * len(script.answers)))
        return account

    def release(self) -> None:
        """Let go of every answer that is held."""
        for due in self._waiting:
            due.held = False
        self._start()

    async def heard(self, occurrence: Occurrence) -> None:
        """Something happened: answers that waited for it come nearer, and others may be asked for."""
        for due in self._waiting:
            due.events = max(0, due.events - 1)
        for script, account, counts in self._scripts:
            if occurrence.by.login == account.login:
                continue
            for nth, answer in enumerate(script.answers):
                if answer.matches(occurrence) and (answer.times is None or counts[nth] < answer.times):
                    counts[nth] += 1
                    self._waiting.append(_Due(account, answer, occurrence, answer.after_events, answer.held))
        self._start()

    async def idle(self) -> None:
        """Wait until every answer that is due was given; those that wait are not."""
        await self._due.join()

    async def run(self) -> None:
        """Give answers as they become due, until cancelled."""
        while True:
            due = await self._due.get()
            try:
                await self._give(due)
            except ResolventError as error:
                self.refused.append(error)
            finally:
                self._due.task_done()

    def _start(self) -> None:
        for due in [due for due in self._waiting if due.ready]:
            self._waiting.remove(due)
            self._due.put_nowait(due)

    async def _give(self, due: _Due) -> None:
        asked, answer, bot = due.occurrence.item, due.answer, due.bot
        assert asked is not None
        item = await self.hub.item(asked.number)
        commit = await self._commit(answer, asked, item)
        body = _filled(answer.body, number=item.number, commit=commit, author=due.occurrence.by.login)
        if answer.kind == "comment":
            await self.hub.remark(bot, item.number, body)
        elif answer.kind == "review":
            remarks = tuple(Noted(one.path, one.line, one.body) for one in answer.remarks)
            await self.hub.opine(bot, item.number, Opining(answer.opinion, body, commit, remarks))
        elif due.occurrence.remark is not None:
            await self.hub.react(bot, answer.reaction, remark=due.occurrence.remark.id)
        else:
            await self.hub.react(bot, answer.reaction, number=item.number)

    async def _commit(self, answer: BotAnswer, asked: Item, now: Item) -> str:
        if answer.commit == "head":
            return now.head_commit
        if answer.commit == "asked":
            return asked.head_commit
        made = await self.hub.commit(asked.head_commit)
        return made.parents[0] if made and made.parents else asked.head_commit


def _filled(text: str, **words: Any) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", str(word))
    return text
