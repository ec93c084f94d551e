"""The plain workspace: every branch is a copy, by reflink where the disk can."""

import asyncio
import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from unicodedata import normalize

from resolvent.adapters.git import Git
from resolvent.adapters.workspace.export import Harvest, take_in
from resolvent.adapters.workspace.files import MAX_DEPTH, copy_tree, opened, translated, write_beneath
from resolvent.adapters.workspace.names import directory_name, shown, unsafe
from resolvent.adapters.workspace.objects import Listing, Pack
from resolvent.adapters.workspace.rules import Rules
from resolvent.adapters.workspace.scratch import Scratch, settle
from resolvent.adapters.workspace.sealed import SealedTrees
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch
from resolvent.errors import ExportRefused, ReplayDiverged

MAX_SKIPPED = 1000


class CopyWorkspace:
    """Branches as directories below the state directory, beside the trusted `repo.git`."""

    def __init__(self, state: Path) -> None:
        self._state = state.absolute()
        self._git = Git(self._state / "repo.git")
        self._scratch = Scratch(self._state / "scratch")
        self._sealed = SealedTrees(self._git, state=self._state, scratch=self._scratch)

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""
        return await self._made(Branch(id=id, parent=None, commit=change.commit))

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone."""
        left = self.path(parent)
        branch = Branch(id=id, parent=parent.id, commit=parent.commit)
        return await self._made(branch, source=left if left.exists() else None)

    def path(self, branch: Branch) -> Path:
        """Where its files are."""
        return self._place(branch.id) / "work"

    def _place(self, id: str) -> Path:
        return self._state / "branches" / directory_name(id)

    async def _made(self, branch: Branch, *, source: Path | None = None) -> Branch:
        place = self._place(branch.id)
        if not place.exists():
            files = source or await self._sealed.files(branch.commit)
            index = await self._sealed.index(branch.commit)
            await asyncio.to_thread(self._make, branch, source=files, index=index)
        with translated():
            there = Branch.model_validate_json((place / "branch.json").read_bytes())
        if there != branch:
            raise ReplayDiverged(f"branch {branch.id} was made of {there.commit[:10]}, not of {branch.commit[:10]}")
        return there

    def _make(self, branch: Branch, *, source: Path, index: Path) -> None:
        with translated(), self._scratch() as scratch:
            made = scratch / "branch"
            work = made / "work"
            work.mkdir(parents=True)
            with opened(source) as there, opened(work) as here:
                copy_tree(there, here)
            self._sealed.give_repository(work, commit=branch.commit, index=index)
            (made / "branch.json").write_text(branch.model_dump_json())
            settle(made, self._place(branch.id))

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""
        listing = await self._sealed.listing(base.commit)
        refused = _tracked(files, listing)
        if refused:
            raise ExportRefused(f"a reproducer may only add files: {refused!a}", paths=refused)
        await asyncio.to_thread(self._lay, branch, files)

    def _lay(self, branch: Branch, files: Sequence[File]) -> None:
        digest = sha256(json.dumps([(file.path, file.text) for file in files]).encode()).hexdigest()
        laid = self._place(branch.id) / f"laid-{digest[:16]}"
        # Once: asked again, the command that needs the files may be running.
        if laid.exists():
            return
        with translated(), opened(self.path(branch)) as work:
            for file in files:
                write_beneath(work, file.path, file.text.encode("utf-8", "replace"))
            laid.touch()

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""
        listing = await self._sealed.listing(branch.commit)
        sealed = await self._sealed.files(branch.commit)
        return await asyncio.to_thread(self._export, branch, listing, sealed=sealed, message=message, at=at)

    def _export(self, branch: Branch, listing: Listing, *, sealed: Path, message: str, at: float) -> Change | None:
        with translated(), self._scratch() as scratch, (scratch / "pack").open("w+b") as file:
            pack = Pack(file, like=branch.commit)
            rules = Rules(self._git, listing=listing, sealed=sealed, work_tree=scratch / "rules")
            harvest = Harvest(listing, rules, pack)
            try:
                with rules, opened(self.path(branch)) as work:
                    harvest.walk(work)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise ExportRefused(f"the files of branch {branch.id} are gone") from error
            change = harvest.commit(parent=branch.commit, message=message, at=at)
            skipped = [shown(path) for path in harvest.skipped[:MAX_SKIPPED]]
            (self._place(branch.id) / "skipped.json").write_text(json.dumps(skipped))
            if change is not None:
                take_in(self._git, pack)
            return change

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out, at most a thousand: ignored paths, submodules' files, pipes and devices."""
        try:
            return tuple(json.loads((self._place(branch.id) / "skipped.json").read_text()))
        except FileNotFoundError:
            return ()

    async def drop(self, branch: str) -> None:
        """Remove its files. Unknown: nothing to do."""
        with translated():
            await asyncio.to_thread(self._scratch.discard, self._place(branch))


def _tracked(files: Sequence[File], listing: Listing) -> list[str]:
    """The paths at which the commit holds something, or above which it holds a file, in whatever case."""
    entries = {_folded(shown(path)) for path in listing.entries}
    directories = {_folded(shown(path)) for path in listing.directories}
    refused = []
    for file in files:
        parts = _folded(file.path).split("/")
        if len(parts) > MAX_DEPTH or unsafe(file.path.encode("utf-8", "replace")):
            refused.append(file.path)
            continue
        prefixes = {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if prefixes & entries or "/".join(parts) in directories:
            refused.append(file.path)
    return refused


def _folded(path: str) -> str:
    return normalize("NFC", path).casefold()
