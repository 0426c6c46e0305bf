"""A client of the service.

The operations are functions of `service_sdk.generated.api`; they take `Service.api` as their client. This package adds
what cannot be generated: credentials, sign-in, a session that refreshes itself, errors as exceptions, and pages.
"""

from ._client import Service
from ._errors import (
    Conflict,
    Forbidden,
    InvalidCredential,
    NotFound,
    NotSignedIn,
    RateLimited,
    ServiceError,
    SessionBusy,
    SessionEnded,
    SessionFileError,
    SignInFailed,
    SignInRequired,
    Unavailable,
    ValidationFailed,
)
from ._pages import pages
from ._secret import Secret
from ._sign_in import sign_in, sign_out

__all__ = [
    "Conflict",
    "Forbidden",
    "InvalidCredential",
    "NotFound",
    "NotSignedIn",
    "RateLimited",
    "Secret",
    "Service",
    "ServiceError",
    "SessionBusy",
    "SessionEnded",
    "SessionFileError",
    "SignInFailed",
    "SignInRequired",
    "Unavailable",
    "ValidationFailed",
    "pages",
    "sign_in",
    "sign_out",
]
