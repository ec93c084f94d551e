"""Where copies lie: a directory for each branch, with notes beside its files, and locks that tell who may touch them.

`lock` is held for moments, while somebody decides. The directory itself is locked for as long as somebody is at the
files: by the supervisor of a job, by who removes the branch, and by everybody who copies from it, together.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from pydantic import ValidationError

from resolvent.adapters.workspace.boots import BootNote, lost, this_boot
from resolvent.adapters.workspace.files import translated
from resolvent.adapters.workspace.lasting import write_whole
from resolvent.adapters.workspace.names import directory_name
from resolvent.adapters.workspace.scratch import is_at, locked
from resolvent.domain.job import Branch, Kept
from resolvent.errors import BranchBusy, JobLost, NotFound

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Copies:
    """The branches below one directory; all of it blocks for the disk."""

    def __init__(self, directory: Path, *, running: Callable[[str], bool]) -> None:
        """`running` tells whether a job runs right now."""
        self._directory = directory
        self._running = running
        self._boot = this_boot()

    def place(self, id: str) -> Path:
        """The directory of a branch, there or not."""
        return self._directory / directory_name(id)

    def work(self, id: str) -> Path:
        """Where its files are."""
        return self.place(id) / "work"

    def there(self, id: str) -> Branch:
        """The branch; NotFound when there is none, JobLost when the machine went down before it was made."""
        with translated():
            try:
                return Branch.model_validate_json((self.place(id) / "branch.json").read_bytes())
            except FileNotFoundError as error:
                raise _missing(id) from error
            except ValidationError as error:
                hint = f"rm -r {quote(str(self.place(id)))}"
                raise JobLost(f"the note on what branch {id!a} was made of is torn", hint=hint) from error

    def ruined(self, id: str) -> bool:
        """It was never whole, and nobody was ever let in: nothing is lost when it is made anew."""
        try:
            self.there(id)
        except JobLost:
            return not self.noted(id, "job") and not [*self.place(id).glob("laid-*")]
        except NotFound:
            return self.place(id).exists()
        return False

    def kept(self) -> Iterator[Kept]:
        """All there are, in no order; those that are torn are none."""
        for place in self._directory.glob("*"):
            # One that goes while we look was never there.
            with suppress(FileNotFoundError, NotADirectoryError, ValidationError):
                branch = Branch.model_validate_json((place / "branch.json").read_bytes())
                job = self.noted(branch.id, "job")
                busy = bool(job) and self._running(job)
                at = (place / "branch.json").stat().st_mtime
                changed = max(entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(place))
                yield Kept(branch=branch, job=job, busy=busy, created_at=at, updated_at=max(at, changed))

    def noted(self, id: str, what: str) -> str:
        """What was noted beside its files; empty when nothing was."""
        try:
            return (self.place(id) / what).read_text()
        except FileNotFoundError:
            return ""

    def note(self, id: str, what: str, text: str) -> None:
        """Note something beside its files, wholly or not at all."""
        with translated():
            write_whole(self.place(id) / what, text)

    def take(self, id: str, *, job: str) -> None:
        """Let a job in; BranchBusy while somebody else is in there. Asking again for the same job is fine."""
        with self._deciding(id):
            self.refuse_torn(id)
            if self.noted(id, "job") != job:
                os.close(self._claimed(id))
                self.note(id, "job", job)
            self._opened_in(id).leave()

    def lay(self, id: str, digest: str, *, write: Callable[[Path], None]) -> None:
        """Let `write` put files into the branch, once for every digest; BranchBusy while somebody is in there."""
        laid = self.place(id) / f"laid-{digest}"
        with self._deciding(id):
            # Once: asked again, the command that needs the files may be running.
            if not laid.exists():
                self.refuse_torn(id)
                hold = self._claimed(id)
                try:
                    self._opened_in(id).leave()
                    write(self.work(id))
                    laid.touch()
                finally:
                    os.close(hold)

    @contextmanager
    def alone(self, id: str) -> Iterator[None]:
        """Nobody else is at the files meanwhile; BranchBusy when somebody is."""
        with self._deciding(id):
            hold = self._claimed(id)
        try:
            yield
        finally:
            os.close(hold)

    @contextmanager
    def still(self, id: str) -> Iterator[None]:
        """Nobody changes the files meanwhile; BranchBusy when somebody may."""
        with self._deciding(id):
            hold = self._claimed(id, shared=True)
        try:
            yield
        finally:
            os.close(hold)

    def refuse_torn(self, id: str) -> None:
        """JobLost when the machine went down since somebody was let in, and before a snapshot."""
        if self._opened_in(id).torn:
            raise lost(id)

    def safe(self, id: str) -> None:
        """All that is in it is on the disk now."""
        self._opened_in(id).remove()

    def _opened_in(self, id: str) -> BootNote:
        return BootNote(self.place(id) / "boot", boot=self._boot)

    def _claimed(self, id: str, *, shared: bool = False) -> int:
        """The directory of the branch, locked until it is closed."""
        job = self.noted(id, "job")
        if job and self._running(job):
            raise BranchBusy(f"job {job} runs in branch {id!a}", hint=f"resolvent branch stop {quote(id)}")
        hold = os.open(self.place(id), _DIRECTORY)
        if locked(hold, shared=shared) is False:
            os.close(hold)
            raise BranchBusy(f"somebody else uses branch {id!a} at this moment", hint="resolvent branch ls")
        return hold

    @contextmanager
    def _deciding(self, id: str) -> Iterator[None]:
        path = self.place(id) / "lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError as error:
            raise _missing(id) from error
        try:
            with translated():
                fcntl.flock(lock, fcntl.LOCK_EX)
                # It may have been removed while we waited, and another one made.
                if not is_at(path, lock):
                    raise _missing(id)
                yield
        finally:
            os.close(lock)


def _missing(id: str) -> NotFound:
    return NotFound(f"there is no branch {id!a}", hint="resolvent branch ls")
