"""Signing in with a browser: an authorization code with PKCE, on a redirect to this machine (RFC 8252)."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import time
import webbrowser
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from ._credentials import tokens_of
from ._errors import SignInFailed, error_of
from ._http import options, post_form, service_url
from ._session_file import SessionFile

_SIGN_IN_TIMEOUT_SECONDS = 300
_PAGE = b"<!doctype html><title>Signed in</title><p>You can close this window."


def sign_in(
    url: str,
    client_id: str,
    file: str | os.PathLike[str],
    *,
    scope: str = "read",
    open_url: Callable[[str], Any] = webbrowser.open,
) -> None:
    """Signs a user in and stores the session in `file`. `open_url` shows the user an address, by default in a browser.

    The client must be registered with the redirect URI `http://127.0.0.1/callback`; the port does not count.
    """
    url = service_url(url)
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
    with httpx.Client(**options(url)) as http, _Callback() as callback:
        metadata = _metadata(http, url)
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": callback.redirect_uri,
            "scope": scope,
            "state": state,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
            "resource": f"{url}/v1",
        }
        open_url(f"{metadata['authorization_endpoint']}?{urlencode(asked)}")
        answer = callback.wait(state)
        # The answer of another server must not be sent to this one (RFC 9207).
        if answer.get("iss") != url:
            raise SignInFailed("the answer is of another server")
        if "code" not in answer:
            raise SignInFailed(f"the service answered {answer.get('error', 'nothing')}")
        response = http.post(
            metadata["token_endpoint"],
            data={
                "grant_type": "authorization_code",
                "client_id": client_id,
                "code": answer["code"],
                "code_verifier": verifier,
                "redirect_uri": callback.redirect_uri,
                "resource": f"{url}/v1",
            },
        )
    if not response.is_success:
        raise error_of(response)
    session = SessionFile(file)
    with session.locked():
        session.write(tokens_of(url, client_id, response.json()))


def sign_out(url: str, file: str | os.PathLike[str]) -> None:
    """Revokes the session and deletes its file."""
    url, session = service_url(url), SessionFile(file)
    with session.locked():
        kept = session.read()
        if kept is None:
            return
        if kept.issuer != url:
            raise ValueError(f"the session is of {kept.issuer}")
        with httpx.Client(**options(url)) as http:
            form = {"token": kept.refresh_token.expose(), "client_id": kept.client_id}
            response = post_form(http, f"{url}/oauth/revoke", form)
        if not response.is_success:
            raise error_of(response)
        session.delete()


def _metadata(http: httpx.Client, url: str) -> dict[str, str]:
    response = http.get(f"{url}/.well-known/oauth-authorization-server")
    if not response.is_success:
        raise error_of(response)
    metadata: dict[str, str] = response.json()
    if metadata.get("issuer") != url:
        raise SignInFailed("the service calls itself by another URL; use that one")
    for endpoint in ("authorization_endpoint", "token_endpoint"):
        service_url(metadata[endpoint])
    return metadata


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class _Callback:
    """Waits for the browser on a port of this machine."""

    def __init__(self) -> None:
        callback = self
        self._answer: dict[str, str] | None = None
        self._state = ""

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                target = urlsplit(self.path)
                query = parse_qs(target.query)
                # Any program on this machine can ask; only the answer with our state counts.
                once = all(len(values) == 1 for values in query.values())
                answer = {name: values[0] for name, values in query.items()}
                state = answer.get("state", "")
                known = target.path == "/callback" and once and secrets.compare_digest(
                    state.encode(), callback._state.encode()
                )
                self.send_response(200 if known else 404)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("referrer-policy", "no-referrer")
                self.end_headers()
                if known:
                    self.wfile.write(_PAGE)
                    callback._answer = answer

            def log_message(self, format: str, *arguments: Any) -> None:
                """Logs nothing: the address has the code in it."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.redirect_uri = f"http://127.0.0.1:{self._server.server_port}/callback"

    def __enter__(self) -> _Callback:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def wait(self, state: str) -> dict[str, str]:
        """The parameters of the answer to the request with this `state`."""
        self._state = state
        deadline = time.monotonic() + _SIGN_IN_TIMEOUT_SECONDS
        while self._answer is None:
            self._server.timeout = deadline - time.monotonic()
            if self._server.timeout <= 0:
                raise SignInFailed("there was no sign-in within five minutes")
            self._server.handle_request()
        return self._answer
