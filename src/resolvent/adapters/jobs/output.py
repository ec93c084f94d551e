"""What a job says, in files with a cap, and the files of its record.

Part of the detached supervisor: it imports only what is built in, and what lies beside it.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.blotting import Blotter
else:
    from blotting import Blotter

CHUNK = 1 << 16


def there(name: str) -> bool:
    """A file of that name is in the job's directory."""
    return posix.access(name, posix.F_OK)


def written(name: str) -> int:
    """A descriptor of a new file that is ours alone."""
    return posix.open(name, posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC, 0o600)


def leave(name: str, text: str) -> None:
    """Leave a file that is there wholly or not at all."""
    file = written(f"{name}.tmp")
    posix.write(file, text.encode())
    posix.close(file)
    posix.rename(f"{name}.tmp", name)


class Output:
    """What the process says without the secrets in it, in files with a cap; the rest is read and dropped."""

    def __init__(self, names: tuple[str, ...], cap: int, secrets: tuple[str, ...] = ()) -> None:
        self.over = False
        self.lost = ""
        self._left = cap
        pipes = [posix.pipe() for _ in names]
        self.files = {source: written(name) for (source, _), name in zip(pipes, names, strict=True)}
        self.ends = [end for _, end in pipes]
        # Without secrets nobody looks at what is said.
        self._blotters = {source: Blotter(secrets) for source in self.files} if secrets else {}
        # The time of the last word on any stream, for whoever wonders whether the job still lives.
        self._heartbeat = self.files[pipes[0][0]]
        for source in self.files:
            posix.set_blocking(source, False)

    def take(self, source: int) -> bool:
        """Move one chunk; False when there is none."""
        try:
            chunk = posix.read(source, CHUNK)
        except BlockingIOError:
            return False
        blotter = self._blotters.get(source)
        self._keep(source, blotter.take(chunk, last=not chunk) if blotter else chunk)
        return bool(chunk)

    def _keep(self, source: int, said: bytes) -> None:
        fits = said[: self._left]
        self._left -= len(fits)
        self.over = self.over or len(fits) < len(said)
        try:
            while fits and not self.lost:
                fits = fits[posix.write(self.files[source], fits) :]
            posix.utime(self._heartbeat)
        except OSError as error:
            self.lost = f"output was lost: {error.strerror}"

    def blotted(self, text: str) -> str:
        """The same without the secrets."""
        return next((blotter.whole(text) for blotter in self._blotters.values()), text)

    def last_words(self) -> str:
        """The end of what was said so far, on one line."""
        for source in self.files:
            while self.take(source):
                pass
        heard = max(self.files.values())
        size = posix.fstat(heard).st_size
        return posix.pread(heard, 400, max(0, size - 400)).decode(errors="replace").strip().replace("\n", "; ")

    def settle(self) -> None:
        """Take what is still in the pipes and make it last."""
        for source, file in self.files.items():
            # Over the cap nothing more is kept, and a writer that is none of ours might never stop.
            while not self.over and self.take(source):
                pass
            # What still waits to be told from a secret, where somebody keeps the pipe open.
            if blotter := self._blotters.get(source):
                self._keep(source, blotter.take(b"", last=True))
            try:
                posix.fdatasync(file)
            except OSError as error:
                self.lost = f"output was lost: {error.strerror}"
