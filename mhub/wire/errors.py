"""The one error a peer can cause."""


class ProtocolFault(Exception):
    """The peer broke a rule: `reason` is the code to answer with, `text` says which rule."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
