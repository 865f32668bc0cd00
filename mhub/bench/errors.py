"""The one kind of error that a user of `mhub bench` sees."""


class BenchError(Exception):
    """The measurement cannot be made.  `hint` says what to check."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.hint = hint
