"""The part of the broker's topics that a client sees: those below its mount point.

All of the broker - routes, retained messages, rules, other nodes - knows topics in full.  A client
with a mount point neither writes nor reads it: it is put before each topic and filter that comes
from the client, and taken away on the way back.  Nothing but this file knows how.  None stands for
the whole namespace, so that clients without a mount point pay one comparison.

A session may come back with another mount point: by way of another listener, or because the
configuration has changed.  Its subscriptions, which are kept as the client wrote them, follow it
(`mhub.core.subscribing.remount`).  Messages that waited for it keep their topics, and those that
the client could not name any more are dropped: `unmounted_field()` is None.
"""

from mhub.wire.publish import Publish, topic_field


class Namespace:
    def __init__(self, mount_point: str) -> None:
        self.mount_point = mount_point
        self._data = mount_point.encode("utf-8")

    def mounted(self, topic: str) -> str:
        """A client's topic or filter in full."""
        return self.mount_point + topic

    def mounted_data(self, topic_data: bytes) -> bytes:
        return self._data + topic_data

    def unmounted(self, topic: str) -> str:
        """A topic of the client's own as it wrote it."""
        return topic[len(self.mount_point) :]

    def unmounted_field(self, message: Publish) -> bytes | None:
        """The topic of a message, as the client is sent it; None: it cannot be told of it."""
        topic_data = message.topic_data
        if not topic_data.startswith(self._data) or len(topic_data) == len(self._data):
            return None
        return topic_field(topic_data[len(self._data) :])


_KNOWN: dict[str, Namespace] = {}


def namespace_of(mount_point: str) -> Namespace | None:
    """The one Namespace of a mount point; there are as many as the configuration has."""
    if not mount_point:
        return None
    known = _KNOWN.get(mount_point)
    if known is None:
        known = Namespace(mount_point)
        _KNOWN[mount_point] = known
    return known


def mount_point_of(namespace: Namespace | None) -> str:
    return "" if namespace is None else namespace.mount_point


def mounted(namespace: Namespace | None, topic: str) -> str:
    return topic if namespace is None else namespace.mounted(topic)
