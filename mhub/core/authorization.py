"""Authorization: what is asked about a principal before it may do something, or is sent something.

    publish     for each message of a client: the answer has to be in memory
    will        with the CONNECT that leaves it, and again when it is to be published
    subscribe   for each filter of a SUBSCRIBE
    receive     where a route is built and where retained messages are looked up, so that a message
                on a known route costs nothing

All of them in one namespace: topics and filters are in full, with the mount point of the client's
listener (`mhub.core.namespace`) and without `$share/NAME/`.
"""

from typing import Protocol

from mhub.core.principal import Principal


class Authorizer(Protocol):
    """Synchronous and in memory.  A reason is 0 for yes, else the code that says why not."""

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int: ...

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int: ...

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        """`share`: the name of the group, or ""."""

    def receive(self, principal: Principal, topic: str) -> bool:
        """Whether messages of a topic reach it; after a change, Hub.rights_changed()."""
