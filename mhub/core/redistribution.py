"""What a member of a shared group leaves undone goes to the others [MQTT-4.8.2-4, MQTT-4.8.2-5].

A member leaves with UNSUBSCRIBE, with its connection, or when its session ends.  What waits in its
queue is redistributed, and what was sent and not acknowledged at QoS 1; a QoS 2 delivery that has
begun stays with its client.  The others may be on other nodes.
"""

from mhub.core.delivery import Delivery
from mhub.core.session import Session
from mhub.core.shared import Group


def redistribute(session: Session, group: Group | None, ended: bool) -> None:
    """Give what others can take to them: of all groups, or of one that was left."""
    if not session.shares:
        return
    at_hand = session.queue.at_hand if session.queue is not None else 0
    unchecked = session.queue.unchecked if session.queue is not None else 0
    for _ in range(at_hand):
        queue = session.queue
        if queue is None or not queue.at_hand:
            break  # what was given away made room for others, which made others go
        delivery = queue.take()
        if not pass_on(session, delivery, group, ended):
            session.keep(delivery)
    if unchecked and session.queue is not None:
        session.queue.unchecked = session.queue.at_hand  # which of them it were is not known now
    session.end_queue()
    if group is not None:
        return  # deliveries that have begun are finished after an UNSUBSCRIBE
    inflight = session.inflight.deliveries
    for pid in [p for p, d in inflight.items() if d.qos == 1 and d.group is not None]:
        if pass_on(session, inflight[pid], None, ended):
            del inflight[pid]


def pass_on(session: Session, delivery: Delivery, only: Group | None, ended: bool) -> bool:
    """Whether somebody else has it now."""
    group = delivery.group
    if group is None or (only is not None and group is not only):
        return False
    if not ended and only is None and not group.has_live_member(session):
        return False
    message = delivery.message
    denied = None
    if session.hub.authorizer is not None:
        denied = session.hub.router.find(message.topic_data).denied
    chosen = group.choose(session, denied)
    peers = session.hub.peers
    if peers is not None and (chosen is None or not chosen.session.is_connected()):
        denied_at = [] if denied is None or chosen is not None else [peers.node]
        if group.peers is not None and peers.pass_on(delivery.message, group, denied_at):
            session.discard(delivery)
            return True
    if chosen is None:
        return False
    qos = message.qos if message.qos < chosen.qos else chosen.qos
    chosen.session.deliver(message, qos, chosen)
    session.discard(delivery)
    return True
