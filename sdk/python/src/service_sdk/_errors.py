"""Errors of the service, and of the session."""

from __future__ import annotations

from typing import Any

import httpx


class ServiceError(Exception):
    """An error response of the service. `error` says what happened, `details` has more for programs."""

    def __init__(self, response: httpx.Response) -> None:
        try:
            body = response.json()
        except ValueError:
            body = {}
        if not isinstance(body, dict) or not isinstance(body.get("error"), str):
            # A proxy answered, or the URL is wrong. Its text is not ours to repeat.
            body = {"error": "unexpected_response", "error_description": "The response is not one of the service."}
        self.status: int = response.status_code
        self.error: str = body["error"]
        self.error_description: str = str(body.get("error_description", ""))
        self.details: dict[str, Any] = body.get("details") or {}
        self.request_id: str | None = body.get("request_id") or response.headers.get("x-request-id")
        retry_after = response.headers.get("retry-after", "")
        self.retry_after: int | None = int(retry_after) if retry_after.isdigit() else None
        super().__init__(f"{self.error_description} ({self.error}, status {self.status}, request {self.request_id})")

    @property
    def reason(self) -> str | None:
        """Why a genuine credential is no longer valid, such as `expired` or `revoked_by_user`."""
        reason = self.details.get("reason")
        return reason if isinstance(reason, str) else None


class InvalidCredential(ServiceError):
    """401: the token is missing, expired or revoked, or it is for another resource."""


class Forbidden(ServiceError):
    """403: the token's scopes or space, or the user's role, do not allow the call."""


class NotFound(ServiceError):
    """404: there is no such thing, or the caller may not see it."""


class Conflict(ServiceError):
    """409 or 412: the thing has changed, or exists already."""


class ValidationFailed(ServiceError):
    """422: a field is not valid."""

    @property
    def fields(self) -> Any:
        """What is wrong with which field, as the service reports it."""
        return self.details.get("fields")


class RateLimited(ServiceError):
    """429: too many requests. `retry_after` has the seconds to wait."""


class Unavailable(ServiceError):
    """502, 503 or 504: the service is temporarily unavailable. `retry_after` has the seconds to wait."""


_BY_STATUS: dict[int, type[ServiceError]] = {
    401: InvalidCredential,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    422: ValidationFailed,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(response: httpx.Response) -> ServiceError:
    """The exception for a response whose body has been read."""
    return _BY_STATUS.get(response.status_code, ServiceError)(response)


class NotSignedIn(Exception):
    """There is no credential: neither `SERVICE_TOKEN` nor a session."""


class SessionEnded(NotSignedIn):
    """The session was revoked or has expired. Its file has been deleted."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(f"the session has ended ({reason or 'no reason given'}); sign in again")
        self.reason = reason


class SignInRequired(Exception):
    """The user has to sign in through their company again. The session was kept: it works again afterwards."""


class SignInFailed(Exception):
    """The browser came back without a code, or not from this sign-in."""


class SessionBusy(Exception):
    """Another process has been refreshing the session for 30 seconds."""


class SessionFileError(Exception):
    """The file of the session cannot be used. The message never contains a token."""
