"""The file that keeps a session: readable by its owner only, replaced atomically, and guarded by a lock between processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._errors import SessionBusy, SessionFileError
from ._secret import Secret

_FORMAT = "service-sdk-python/1"
_LOCK_TIMEOUT_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Tokens:
    """The tokens of a session, with the service and the OAuth client that they belong to."""

    issuer: str
    client_id: str
    access_token: Secret
    expires_at: float
    refresh_token: Secret


class SessionFile:
    """A session on disk. Processes that share it see each other's refreshes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()

    def __repr__(self) -> str:
        return f"SessionFile({str(self.path)!r})"

    def read(self) -> Tokens | None:
        """The tokens, or `None` if there are none. A file that other users could read is made private."""
        try:
            descriptor = self._open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, encoding="utf-8") as file:
            self._check(descriptor)
            text = file.read()
        try:
            kept = json.loads(text)
            if kept["format"] != _FORMAT:
                raise SessionFileError(f"{self.path} is the session of another program")
            return Tokens(
                issuer=kept["issuer"],
                client_id=kept["client_id"],
                access_token=Secret(kept["access_token"]),
                expires_at=float(kept["expires_at"]),
                refresh_token=Secret(kept["refresh_token"]),
            )
        except (ValueError, KeyError, TypeError):
            # The cause would show the text, which has tokens in it.
            raise SessionFileError(f"{self.path} is not a session; delete it and sign in again") from None

    def write(self, tokens: Tokens) -> None:
        """Replaces the file. A reader sees the old or the new tokens, also after a crash. The caller holds the lock."""
        kept = {
            "format": _FORMAT,
            "issuer": tokens.issuer,
            "client_id": tokens.client_id,
            "access_token": tokens.access_token.expose(),
            "expires_at": tokens.expires_at,
            "refresh_token": tokens.refresh_token.expose(),
        }
        self._make_folder()
        new = self.path.with_name(f"{self.path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            # A process that was killed left it.
            new.unlink()
        with os.fdopen(self._open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def delete(self) -> None:
        """Deletes the file, if there is one. The caller holds the lock."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock. The kernel releases it when the process exits, however it exits."""
        self._make_folder()
        descriptor = self._open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            self._check(descriptor)
            deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise SessionBusy("another process has been refreshing the session for 30 seconds") from None
                    time.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _make_folder(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = self.path.parent.stat().st_mode
        if mode & 0o022 and not mode & stat.S_ISVTX:
            raise SessionFileError(f"{self.path.parent} is writable by other users")

    def _open(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise
        except OSError as error:
            why = "is a symbolic link" if path.is_symlink() else f"cannot be used ({error.strerror})"
            raise SessionFileError(f"{path} {why}") from None

    def _check(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SessionFileError(f"{self.path} is not a file")
        if found.st_uid != os.geteuid():
            raise SessionFileError(f"{self.path} belongs to another user")
        if found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
