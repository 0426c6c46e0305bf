"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .generated.types import UNSET


def pages(read: Callable[[Any], Any]) -> Iterator[Any]:
    """Yields every item of a list, page after page. `read` makes the call with the cursor that it is given:

    `pages(lambda cursor: list_projects.sync(client=service.api, cursor=cursor, limit=100))`
    """
    cursor: Any = UNSET
    while True:
        page = read(cursor)
        yield from page.data
        cursor = page.next_cursor
        if cursor is UNSET or cursor is None:
            return
