"""Read a retained message, as a client would by a subscription to its topic.

It is looked up without one, as MQTT has no way to say that there is no message.  So what is asked
of a client is asked here: whether it may subscribe to the topic, and receive it.  Who may not is
told the same as if there were none.
"""

from mhub.admin.mqtt import packets
from mhub.admin.mqtt.client import Place
from mhub.admin.mqtt.message import Message, check_topic
from mhub.admin.mqtt.pool import check_caller, client_id_of
from mhub.core.namespace import mounted, namespace_of
from mhub.core.principal import Principal
from mhub.operations.contract import NotThere


def read_retained(place: Place, principal: Principal, topic: str) -> Message:
    """Raises NotThere."""
    check_caller(place, principal)
    check_topic(topic, "topic")
    hub = place.hub
    name = mounted(namespace_of(place.limits().mount_point), topic)
    asks = principal.copy()
    asks.listener = place.listener
    asks.client_id = client_id_of(principal.user, "r.")
    found = hub.retained.tree.get(name)
    now = place.clock()
    if found is not None and found.expires_at and found.expires_at <= now:
        found = None
    authorizer = hub.authorizer
    if found is None or (
        authorizer is not None
        and (
            authorizer.connect(asks)
            or authorizer.subscribe(asks, name, 0, "")
            or not authorizer.receive(asks, name)
        )
    ):
        raise NotThere(f"there is no retained message at {topic!r}, or none for this caller")
    return packets.kept_message(found, topic, now)
