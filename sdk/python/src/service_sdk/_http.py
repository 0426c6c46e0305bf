"""HTTP as every part of this package uses it: to one service, without redirects, and never in plain text over a network."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import httpx

TIMEOUT = httpx.Timeout(15, connect=10)
# A request that may be repeated is sent again after these seconds.
RETRY_DELAYS_SECONDS = (0.1, 0.4)
# Requests that may be repeated: they create nothing, and a repeated deletion finds nothing more to delete.
REPEATABLE_METHODS = ("GET", "DELETE")
_PASSING_STATUSES = (502, 503, 504)


def service_url(url: str) -> str:
    """The URL of a service, without a trailing slash. Raises `ValueError` if tokens would travel in plain text."""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in ("https", "http") or parts.query or parts.fragment or parts.username:
        raise ValueError("the URL of the service looks like https://service.example")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("the URL of the service must use https, or http on this machine")
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def options(url: str) -> dict[str, object]:
    """What every HTTP client of a service is made with. No proxy sees tokens that travel in plain text."""
    return {"timeout": TIMEOUT, "follow_redirects": False, "trust_env": url.startswith("https:")}


def post_form(http: httpx.Client, url: str, form: dict[str, str]) -> httpx.Response:
    """Sends a form that may be repeated: a refresh gets the same answer again if its response was lost."""
    return repeat(lambda: http.post(url, data=form))


def repeat(send: Callable[[], httpx.Response]) -> httpx.Response:
    """Sends a request up to three times, if the connection breaks or the service is temporarily unavailable."""
    for delay in RETRY_DELAYS_SECONDS:
        try:
            response = send()
        except httpx.TransportError:
            pass
        else:
            if response.status_code not in _PASSING_STATUSES:
                return response
        time.sleep(delay)
    return send()


async def repeat_async(send: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Sends a request up to three times, if the connection breaks or the service is temporarily unavailable."""
    for delay in RETRY_DELAYS_SECONDS:
        try:
            response = await send()
        except httpx.TransportError:
            pass
        else:
            if response.status_code not in _PASSING_STATUSES:
                return response
        await asyncio.sleep(delay)
    return await send()
