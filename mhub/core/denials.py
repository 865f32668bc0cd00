"""What a client was denied last, for whoever asks why."""

from typing import Final

LONGEST_TOPIC: Final = 1024
"""Characters of a topic that are kept: those of 65,535 would fill the memory."""


class Denial:
    """The last one of its kind (`cause`: an index of events.CAUSES), of one session."""

    def __init__(
        self, cause: int, topic: str, rule: str, qos: int, retain: bool, now: float
    ) -> None:
        self.cause = cause
        self.topic = topic if len(topic) <= LONGEST_TOPIC else topic[:LONGEST_TOPIC]
        self.rule = rule  # "": it was not looked for
        self.qos = qos
        self.retain = retain
        self.at = now
        self.count = 1  # how often in a row, of this topic

    def again(self, rule: str, qos: int, retain: bool, now: float) -> None:
        if qos != self.qos or retain != self.retain or rule:
            self.rule = rule  # another rule may be the reason
        self.qos = qos
        self.retain = retain
        self.at = now
        self.count += 1
