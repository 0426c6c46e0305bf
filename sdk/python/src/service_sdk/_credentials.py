"""Where the access token of a request comes from: a CLI token, or a session that is refreshed when it expires.

One process refreshes at a time: it takes the lock, reads the file again, and uses the token of another process if there
is a new one. Otherwise it sends the refresh token that it has just read, and stores the answer before it releases the
lock. A refresh token that the service rejected is never sent again.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

import httpx

from ._errors import NotSignedIn, SessionEnded, SignInRequired, error_of
from ._http import post_form
from ._secret import Secret
from ._session_file import SessionFile, Tokens

# An access token is refreshed this long before it expires, so that it does not expire on the way.
_EXPIRY_MARGIN_SECONDS = 60.0
_MAX_LIFETIME_SECONDS = 86_400


class Credentials(Protocol):
    """Gives the token for a request, and another one if the service rejected it."""

    def token(self) -> Secret: ...

    def renew(self, rejected: Secret) -> Secret | None: ...

    def close(self) -> None: ...


class CliToken:
    """A CLI token. It is not refreshed."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def token(self) -> Secret:
        return self._token

    def renew(self, rejected: Secret) -> Secret | None:
        return None

    def close(self) -> None:
        """There is nothing to close."""


class Session:
    """A session in a file, which several threads and processes can share."""

    def __init__(self, url: str, file: SessionFile, http: httpx.Client) -> None:
        self._url = url
        self._file = file
        self._http = http
        self._renewing = threading.Lock()

    def token(self) -> Secret:
        kept = self._read()
        return kept.access_token if _is_fresh(kept) else self.renew(kept.access_token)

    def renew(self, rejected: Secret) -> Secret:
        with self._renewing, self._file.locked():
            kept = self._read()
            if kept.access_token != rejected and _is_fresh(kept):
                return kept.access_token
            response = post_form(
                self._http,
                f"{self._url}/oauth/token",
                {
                    "grant_type": "refresh_token",
                    "client_id": kept.client_id,
                    "refresh_token": kept.refresh_token.expose(),
                },
            )
            if response.is_success:
                fresh = tokens_of(self._url, kept.client_id, response.json())
                self._file.write(fresh)
                return fresh.access_token
            error = error_of(response)
            if error.error != "invalid_grant":
                raise error
            if error.reason == "sso_again":
                raise SignInRequired("sign in through your company again") from error
            self._file.delete()
            raise SessionEnded(error.reason) from error

    def close(self) -> None:
        self._http.close()

    def _read(self) -> Tokens:
        kept = self._file.read()
        if kept is None:
            raise NotSignedIn("not signed in")
        if kept.issuer != self._url:
            raise NotSignedIn(f"the session is of {kept.issuer}")
        return kept


def tokens_of(issuer: str, client_id: str, body: dict[str, Any]) -> Tokens:
    """The tokens of a token response that has just arrived."""
    lifetime = min(max(int(body["expires_in"]), 0), _MAX_LIFETIME_SECONDS)
    return Tokens(
        issuer=issuer,
        client_id=client_id,
        access_token=Secret(body["access_token"]),
        expires_at=time.time() + lifetime,
        refresh_token=Secret(body["refresh_token"]),
    )


def _is_fresh(tokens: Tokens) -> bool:
    return time.time() + _EXPIRY_MARGIN_SECONDS < tokens.expires_at
