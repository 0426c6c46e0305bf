"""Text that must not be printed."""


class Secret:
    """A token. Its text is returned by `expose()` and by nothing else: `print`, `repr`, `%r` and logging show a placeholder."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def expose(self) -> str:
        """Returns the text, for the header or the file that it belongs to."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
