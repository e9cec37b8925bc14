"""Keeps pictures for a time in a local directory, for answers that carry a link to them.

Several processes may share the directory, as the same user: whoever changes it holds its lock,
and what it holds is counted from the directory itself. A file's modification time is the moment
at which it expires, so that nothing has to be remembered over a restart.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import secrets
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from gateway.routing.links import check, is_name, sign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SWEEP_SECONDS: Final = 60.0
LOCK_TRIES: Final = 200
LOCK_PAUSE_SECONDS: Final = 0.01
KEY_BYTES: Final = 32
_KEY: Final = "key"
_LOCK: Final = "lock"
_TEMPORARY: Final = ".tmp"


class StoreFault(Exception):
    """Says why the store cannot be used, or why it cannot keep a picture; names the directory."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Is a kept picture: its name, and the unix second at which its link expires."""

    name: str
    expires: int


def default_directory() -> Path:
    """Names the directory for those who name none: one per user, the same for all his processes."""
    return Path(tempfile.gettempdir()) / f"turnout-{os.geteuid()}"


class ArtifactStore:
    """Is the store; between `start` and `close` it also sweeps."""

    def __init__(
        self,
        directory: Path,
        max_bytes: int,
        ttl_seconds: float,
        key: bytes | None = None,
        clock: Callable[[], float] = time.time,
        *,
        sweep_seconds: float = SWEEP_SECONDS,
        faulted: Callable[[StoreFault], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._key = key
        self._has_own_key = key is None
        self.clock = clock
        self._sweep_seconds = sweep_seconds
        self._faulted = faulted
        # One thread of ours at a time waits for the directory's lock, whoever else holds it.
        self._writing = asyncio.Lock()
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Makes the directory and its key where they are missing, and begins to sweep.

        Raises StoreFault.
        """
        await asyncio.to_thread(self._open)
        self._sweeper = asyncio.create_task(self._sweep_on())

    async def close(self) -> None:
        """Stops sweeping; what is kept stays."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    async def put(self, data: bytes, output_format: str) -> Artifact:
        """Keeps a png, jpeg or webp picture, the oldest making room for it. Raises StoreFault."""
        name = f"{secrets.token_hex(16)}.{output_format}"
        if not is_name(name):
            raise ValueError(f"no pictures of format {output_format!r} are kept")
        if len(data) > self._max_bytes:
            raise StoreFault(
                f"a picture of {len(data)} bytes does not fit into {self._directory}, which is "
                f"bounded to {self._max_bytes}"
            )
        async with self._writing:
            return await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str) -> bytes | None:
        """Returns the bytes of a picture; None where it has expired, is gone, or never was."""
        return await asyncio.to_thread(self._get, name) if is_name(name) else None

    async def sweep(self) -> None:
        """Removes what has expired and what a crash has left. Raises StoreFault."""
        async with self._writing:
            await asyncio.to_thread(self._sweep)

    def signature(self, artifact: Artifact) -> str:
        """Signs the link to a picture."""
        assert self._key is not None, "the store is not started"
        return sign(self._key, artifact.name, artifact.expires)

    def admits(self, artifact: Artifact, signature: str) -> bool:
        """Tells whether a link is one of ours, or of a store with the same key, and still holds."""
        assert self._key is not None, "the store is not started"
        return check(self._key, artifact.name, artifact.expires, signature, self.clock())

    async def _sweep_on(self) -> None:
        while True:
            try:
                await self.sweep()
            except StoreFault as fault:
                self._faulted(fault)
            await asyncio.sleep(self._sweep_seconds)

    def _open(self) -> None:
        with self._locked():
            self._trim(0)
            if self._has_own_key:
                self._key = self._shared_key()

    def _put(self, name: str, data: bytes) -> Artifact:
        with self._locked():
            # Links name whole seconds. Rounded up, and the fraction kept, which tells the order.
            until = self.clock() + self._ttl_seconds + 1
            self._trim(len(data))
            self._write(name, data, until)
            return Artifact(name, math.floor(until))

    def _get(self, name: str) -> bytes | None:
        try:
            with open(self._directory / name, "rb") as file:
                is_due = os.fstat(file.fileno()).st_mtime <= self.clock()
                return None if is_due else file.read()
        except FileNotFoundError:
            return None

    def _sweep(self) -> None:
        with self._locked():
            self._trim(0)
            if self._has_own_key:
                try:
                    # Programs that clean temporary directories take what looks unused for days.
                    os.utime(self._directory / _KEY)
                except FileNotFoundError:
                    assert self._key is not None
                    self._write(_KEY, self._key)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the directory's lock against every thread and process. Raises StoreFault."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_planted(self._directory):
                raise StoreFault(
                    f"{self._directory} belongs to another user, in a place where everybody may "
                    "write; set artifacts.directory"
                )
            with open(self._directory / _LOCK, "ab", opener=_private) as lock:
                _lock(lock, self._directory)
                yield
        except OSError as error:
            raise StoreFault(f"{self._directory} cannot be used: {error.strerror}") from error

    def _trim(self, room: int) -> None:
        """Removes leftovers, expired pictures, and the oldest until `room` bytes are free."""
        kept: list[tuple[float, int, Path]] = []
        for path in list(self._directory.iterdir()):
            if path.suffix == _TEMPORARY and (is_name(path.stem) or path.stem == _KEY):
                path.unlink(missing_ok=True)  # whoever writes holds the lock, so nobody does
            elif is_name(path.name):
                with suppress(FileNotFoundError):  # a person may tidy up as well
                    seen = path.lstat()
                    kept.append((seen.st_mtime, seen.st_size, path))
        excess = sum(size for _, size, _ in kept) + room - self._max_bytes
        now = self.clock()
        for until, size, path in sorted(kept):
            if until > now and excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size

    def _shared_key(self) -> bytes:
        path = self._directory / _KEY
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            key = secrets.token_bytes(KEY_BYTES)
            self._write(_KEY, key)
        if len(key) < KEY_BYTES:
            raise StoreFault(f"{path} is shorter than {KEY_BYTES} bytes; remove it for a new one")
        return key

    def _write(self, name: str, data: bytes, until: float | None = None) -> None:
        """Writes a file that is either there as a whole or not at all."""
        temporary = self._directory / f"{name}{_TEMPORARY}"
        try:
            with open(temporary, "wb", opener=_private) as file:
                file.write(data)
                file.flush()
                if until is not None:
                    os.utime(file.fileno(), (until, until))
                os.fsync(file.fileno())
            temporary.replace(self._directory / name)
        finally:
            temporary.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _lock(file: IO[bytes], directory: Path) -> None:
    """Takes the lock, but waits no longer than any honest holder needs. Raises StoreFault."""
    for _ in range(LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOCK_PAUSE_SECONDS)
    raise StoreFault(f"{directory} is locked by another process that does not let go")


def _is_planted(directory: Path) -> bool:
    """Tells whether somebody else may have made a directory first, to read what we keep."""
    is_open_to_all = directory.absolute().parent.stat().st_mode & stat.S_IWOTH
    return bool(is_open_to_all) and directory.lstat().st_uid not in (0, os.geteuid())
