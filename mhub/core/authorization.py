"""Authorization: what is asked about a principal before it may do something, or is sent something.

    connect     with each CONNECT, once it is known who it is; the client id stands for a topic
    publish     for a message of a client; the connection remembers the answer for its topic
    will        with the CONNECT that leaves it, and again when it is to be published
    subscribe   for each filter of a SUBSCRIBE, and again whenever rights have changed
    receive     where a route is built and where retained messages are looked up, so that a message
                on a known route costs nothing

After a change of what it would answer, Hub.rights_changed() has to be called: in the same turn, so
that nothing is judged by an answer of before.  `mhub.core.revocation` has the rest of it.

All of them in one namespace: topics and filters are in full, with the mount point of the client's
listener (`mhub.core.namespace`) and without `$share/NAME/`.
"""

from typing import Final, Protocol

from mhub.core.principal import Principal

NO_RULE: Final = "no rule"
"""What rule_of() says if nothing allows it: the default is no."""


class Authorizer(Protocol):
    """Synchronous and in memory.  A reason is 0 for yes, else the code that says why not."""

    def connect(self, principal: Principal) -> int: ...

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int: ...

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int: ...

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        """`share`: the name of the group, or ""."""

    def receive(self, principal: Principal, topic: str) -> bool:
        """Whether messages of a topic reach it."""

    def rule_of(self, principal: Principal, action: str, topic: str, qos: int, retain: bool) -> str:
        """The id of the rule by which it may not; NO_RULE: there is none by which it may.

        `action` is connect, publish, subscribe or receive.  It is asked for an event, not for each
        message, and may take its time.
        """
