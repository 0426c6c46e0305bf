"""A service, with the credential that its calls are made with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from types import TracebackType
from typing import Self

import httpx

from ._credentials import CliToken, Credentials, Session
from ._errors import NotSignedIn, error_of
from ._http import REPEATABLE_METHODS, options, repeat, repeat_async, service_url
from ._secret import Secret
from ._session_file import SessionFile
from .generated import AuthenticatedClient


class _Auth(httpx.Auth):
    """Adds the access token. If the service rejects it, refreshes it and sends the request once more, which is safe: a
    request that is rejected for its token has no effect."""

    requires_request_body = True

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._credentials.token()
        response = yield _with_token(request, token)
        if response.status_code == 401:
            response.read()
            renewed = self._credentials.renew(token) if _is_rejected(response) else None
            if renewed is not None:
                yield _with_token(request, renewed)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        # Files, locks and refreshes block, so they have a thread.
        token = await asyncio.to_thread(self._credentials.token)
        response = yield _with_token(request, token)
        if response.status_code == 401:
            await response.aread()
            renewed = await asyncio.to_thread(self._credentials.renew, token) if _is_rejected(response) else None
            if renewed is not None:
                yield _with_token(request, renewed)


def _with_token(request: httpx.Request, token: Secret) -> httpx.Request:
    request.headers["authorization"] = f"Bearer {token.expose()}"
    return request


def _is_rejected(response: httpx.Response) -> bool:
    error = error_of(response)
    # A token for another resource stays one.
    return error.error == "invalid_token" and error.reason != "wrong_audience"


def _raise_error(response: httpx.Response) -> None:
    if response.is_error:
        response.read()
        raise error_of(response)


async def _raise_error_async(response: httpx.Response) -> None:
    if response.is_error:
        await response.aread()
        raise error_of(response)


class Service:
    """A service. Pass `api` to the operations of `service_sdk.generated.api`; an error response raises `ServiceError`."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = service_url(url)
        self._credentials, auth = credentials, _Auth(credentials)
        self._http = _Client(base_url=self.url, auth=auth, **options(self.url))
        self._async_http = _AsyncClient(base_url=self.url, auth=auth, **options(self.url))
        api = AuthenticatedClient(base_url=self.url, token="", raise_on_unexpected_status=True)
        self.api = api.set_httpx_client(self._http).set_async_httpx_client(self._async_http)

    @classmethod
    def from_environment(cls) -> Self:
        """With the CLI token in `SERVICE_TOKEN`, for the service at `SERVICE_API_URL`."""
        url, token = os.environ.get("SERVICE_API_URL"), os.environ.get("SERVICE_TOKEN")
        if not url or not token:
            raise NotSignedIn("set SERVICE_API_URL, and SERVICE_TOKEN to a CLI token")
        return cls(url, CliToken(Secret(token)))

    @classmethod
    def from_session(cls, url: str, file: str | os.PathLike[str]) -> Self:
        """With the session that `sign_in` stored in `file`."""
        url = service_url(url)
        return cls(url, Session(url, SessionFile(file), httpx.Client(**options(url))))

    def close(self) -> None:
        """Closes the connections of synchronous calls; `aclose` closes those of asynchronous ones."""
        self._http.close()
        self._credentials.close()

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._async_http.aclose()
        self.close()

    def __repr__(self) -> str:
        return f"Service({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Client(httpx.Client):
    """Repeats what may be repeated, and raises an error response as an exception. An event hook would raise it before the
    authentication has seen it."""

    def send(self, request: httpx.Request, **arguments: object) -> httpx.Response:
        def once() -> httpx.Response:
            return super(_Client, self).send(request, **arguments)  # type: ignore[arg-type]

        response = repeat(once) if request.method in REPEATABLE_METHODS else once()
        _raise_error(response)
        return response


class _AsyncClient(httpx.AsyncClient):
    """Repeats what may be repeated, and raises an error response as an exception."""

    async def send(self, request: httpx.Request, **arguments: object) -> httpx.Response:
        async def once() -> httpx.Response:
            return await super(_AsyncClient, self).send(request, **arguments)  # type: ignore[arg-type]

        response = await (repeat_async(once) if request.method in REPEATABLE_METHODS else once())
        await _raise_error_async(response)
        return response
