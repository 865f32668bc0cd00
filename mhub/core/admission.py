"""CONNECT and AUTH: who it is, which session it gets, what the CONNACK says.

    connect -> guard (`mhub.core.guard`): bans, lock-outs
            -> authenticator or exchange (`mhub.core.authentication`) -> _take
    auth    -> exchange                                               -> _take
    _take   -> _act, with the Step; at once, or by answered() when it comes later
    _act    -> _accept     who it is is known: client id, will, keep-alive, expiry are decided
    _accept -> welcome     the session and the CONNACK; at once, or when another node has sent it

What is refused on this way is a ProtocolFault, which ends in refuse().  Without an authenticator,
or with a principal whose user was proved before its CONNECT, connect goes straight to _accept.
"""

from typing import TYPE_CHECKING, Final

from mhub.core import events
from mhub.core.aliases import TopicAliases
from mhub.core.authentication import (
    CONTINUE,
    FAILURE,
    Authentication,
    Authenticator,
    Claim,
    Later,
    Method,
    Step,
    failure,
)
from mhub.core.connection import (
    AUTHENTICATING,
    NEW,
    PENDING,
    READY,
    UNLIMITED,
    WAITING,
    Connection,
    Welcome,
)
from mhub.core.guard import Guard, Refusal
from mhub.core.limits import Limits
from mhub.core.principal import Identity
from mhub.core.session import STATE_LOST, Will, describe_withdrawn
from mhub.wire import decode, encode, properties, reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import V5, V31, VERSION_NAMES, Connect
from mhub.wire.publish import topic_field
from mhub.wire.topics import check_name, check_name_form

if TYPE_CHECKING:
    from mhub.core.hub import Hub

SHORTEST_CONNACK: Final = 5

CONNACK_REASONS: Final = frozenset(
    {
        reasons.UNSPECIFIED,
        reasons.MALFORMED_PACKET,
        reasons.PROTOCOL_ERROR,
        reasons.IMPLEMENTATION_SPECIFIC,
        reasons.UNSUPPORTED_VERSION,
        reasons.CLIENT_ID_NOT_VALID,
        reasons.BAD_USER_OR_PASSWORD,
        reasons.NOT_AUTHORIZED,
        reasons.SERVER_UNAVAILABLE,
        reasons.SERVER_BUSY,
        reasons.BANNED,
        reasons.BAD_AUTHENTICATION_METHOD,
        reasons.TOPIC_NAME_INVALID,
        reasons.PACKET_TOO_LARGE,
        reasons.QUOTA_EXCEEDED,
        reasons.PAYLOAD_FORMAT_INVALID,
        reasons.RETAIN_NOT_SUPPORTED,
        reasons.QOS_NOT_SUPPORTED,
        reasons.USE_ANOTHER_SERVER,
        reasons.SERVER_MOVED,
        reasons.CONNECTION_RATE_EXCEEDED,
    }
)  # [MQTT-3.2.2-8]

CREDENTIALS: Final = frozenset({reasons.BAD_USER_OR_PASSWORD, reasons.NOT_AUTHORIZED})
"""Reasons of an authenticator that say: it is not who it says.  Others are about the broker."""


class Admission:
    def __init__(self, hub: "Hub") -> None:
        self.hub = hub
        self.authenticator: Authenticator | None = None
        self.methods: dict[str, Method] = {}  # of enhanced authentication, by their names
        self.waiting: dict[Connection, bool] = {}  # known, and their session is to come
        self.guard: Guard | None = None

    def connect(self, connection: Connection, data: bytes, body: int, end: int) -> None:
        allowed = connection.limits
        version, known, pos = decode.connect_version(data, body, end)
        connection.version = version
        if not known:  # [MQTT-3.1.2-2]
            connection.max_packet_out = SHORTEST_CONNACK
            raise ProtocolFault(
                reasons.UNSUPPORTED_VERSION, f"unknown protocol level {data[pos - 1]}"
            )
        if version not in allowed.versions:
            raise ProtocolFault(
                reasons.UNSUPPORTED_VERSION,
                f"MQTT {VERSION_NAMES[version]} is disabled on this listener",
            )
        # Until its CONNECT is understood the client's Maximum Packet Size is not known.
        connection.max_packet_out = SHORTEST_CONNACK
        packet = decode.connect(data, pos, end, version)
        connection.max_packet_out = UNLIMITED
        if version == V5:
            given = packet.properties
            connection.max_packet_out = given.number(properties.MAXIMUM_PACKET_SIZE, UNLIMITED)
            connection.problem_info = given.number(properties.REQUEST_PROBLEM_INFO, 1) == 1
        self._check_open()
        principal = connection.principal
        principal.client_id = packet.client_id
        principal.claimed_user = packet.username or ""
        if self.guard is not None and self._kept_out(connection, self.guard.arriving(principal)):
            return
        if principal.is_verified():
            # Whoever made the connection has proved it, as for the in-process clients of users who
            # have logged in elsewhere: there is nothing to ask for.
            self._accept(connection, packet, b"")
            return
        method = packet.properties.texts.get(properties.AUTH_METHOD)
        if method is not None:
            self._begin_exchange(connection, packet, method)
        elif self.authenticator is not None:
            authentication = Authentication("", packet)
            connection.authentication = authentication
            answer = self.authenticator.authenticate(Claim(principal, packet))
            self._take(connection, authentication, answer)
        else:
            self._accept(connection, packet, b"")

    def _kept_out(self, connection: Connection, refusal: Refusal | None) -> bool:
        if refusal is None:
            return False
        connection.fail(refusal.reason, refusal.text, refusal.told)
        return True

    def _check_open(self) -> None:
        if self.hub.stopping:
            raise ProtocolFault(reasons.SERVER_UNAVAILABLE, "the broker is stopping")
        overload = self.hub.overload
        if overload.active:
            overload.refused += 1
            self.hub.stats.refused_overload += 1
            raise ProtocolFault(reasons.SERVER_BUSY, "the broker has too much to do")
        redirect = self.hub.redirect
        if redirect is not None:
            raise ProtocolFault(redirect.reason, "this node is leaving the cluster")

    def _check_will(self, connection: Connection, packet: Connect) -> None:
        will = packet.will
        if will is None:
            return
        check_name_form(will.topic, "will topic")
        allowed = connection.limits
        if will.qos > allowed.max_qos:  # [MQTT-3.2.2-12]
            raise ProtocolFault(reasons.QOS_NOT_SUPPORTED, f"will QoS {will.qos}")
        if will.retain and not allowed.retain_available:  # [MQTT-3.2.2-13]
            raise ProtocolFault(reasons.RETAIN_NOT_SUPPORTED, "a retained will")
        most = allowed.message_size_limit
        if most and len(will.payload) > most:
            self.hub.stats.publish_refused_size += 1
            raise ProtocolFault(
                reasons.PACKET_TOO_LARGE,
                f"a will of {len(will.payload)} bytes, at most {most} are allowed",
            )
        name = will.topic  # which is all that the client knows of it
        namespace = connection.namespace
        if namespace is not None:
            will.topic = namespace.mounted(will.topic)
            will.topic_data = will.topic.encode("utf-8")
        size = len(name.encode("utf-8"))
        if size > allowed.max_topic_length:
            self.hub.limited(connection, events.TOPIC_LENGTH)
            raise ProtocolFault(
                reasons.TOPIC_NAME_INVALID,
                f"a will topic of {size} bytes, at most {allowed.max_topic_length} are allowed",
            )
        check_name(will.topic, min(allowed.max_topic_levels, self.hub.router.max_levels))
        will.topic_field = topic_field(will.topic_data)
        reason = self.hub.may_leave_will(connection.principal, will)
        if reason:
            self.hub.events.denied(
                connection, events.WILL, will.topic, reason, will.qos, will.retain
            )
            raise ProtocolFault(reason, f"not authorized to leave a will at {name!r}")

    # Authentication

    def _begin_exchange(self, connection: Connection, packet: Connect, name: str) -> None:
        method = self.methods.get(name)
        if method is None:  # [MQTT-4.12.0-1]
            raise ProtocolFault(
                reasons.BAD_AUTHENTICATION_METHOD, f"no authentication method {name[:40]!r}"
            )
        connection.state = AUTHENTICATING
        authentication = Authentication(name, packet)
        connection.authentication = authentication
        exchange = method(Claim(connection.principal, packet))
        authentication.exchange = exchange
        data = packet.properties.binary.get(properties.AUTH_DATA, b"")
        self._take(connection, authentication, exchange.step(data))

    def auth(self, connection: Connection, data: bytes, body: int, end: int) -> None:
        authentication = connection.authentication
        if connection.version != V5 or authentication is None or not authentication.method:
            # [MQTT-4.12.0-7]
            raise ProtocolFault(reasons.PROTOCOL_ERROR, "AUTH without an authentication method")
        packet = decode.auth(data, body, end)
        if packet.method != authentication.method:  # [MQTT-4.12.0-5, MQTT-4.12.1-1]
            raise ProtocolFault(reasons.PROTOCOL_ERROR, "AUTH names another method than CONNECT")
        if authentication.later is not None:
            raise ProtocolFault(reasons.PROTOCOL_ERROR, "AUTH before the previous one was answered")
        if packet.reason == reasons.REAUTHENTICATE:
            if connection.state != READY or authentication.exchange is not None:
                raise ProtocolFault(reasons.PROTOCOL_ERROR, "re-authentication is not possible now")
            method = self.methods.get(authentication.method)
            if method is None:  # there was, when it connected
                raise ProtocolFault(
                    reasons.BAD_AUTHENTICATION_METHOD, "its authentication method is gone"
                )
            authentication.exchange = method(Claim(connection.principal, None))
        exchange = authentication.exchange
        if exchange is None:
            raise ProtocolFault(reasons.PROTOCOL_ERROR, "AUTH without an exchange in progress")
        self._take(connection, authentication, exchange.step(packet.data))

    def _take(
        self, connection: Connection, authentication: Authentication, answer: Step | Later
    ) -> None:
        """What authentication says; if it cannot say yet, the connection waits."""
        step = answer if isinstance(answer, Step) else answer.step
        if step is not None:
            self._act(connection, authentication, step)
            return
        assert isinstance(answer, Later)
        answer.on_step = connection.go_on_soon
        authentication.later = answer
        authentication.deadline = self.hub.now + connection.limits.authentication_timeout_s
        self.hub.wheel.arm(connection, authentication.deadline)
        if connection.state != READY:
            connection.state = PENDING

    def answered(self, connection: Connection, authentication: Authentication, step: Step) -> None:
        """What a connection waited for has come."""
        authentication.later = None
        if step.again is not None:
            step = step.again()
        if connection.state == PENDING:
            connection.state = AUTHENTICATING if authentication.method else NEW
            connection.answer_by = self.hub.now + connection.limits.connect_timeout_s
            self.hub.wheel.arm(connection, connection.answer_by)
        try:
            self._act(connection, authentication, step)
        except ProtocolFault as fault:
            self.hub.stats.protocol_errors += 1
            connection.fail(fault.reason, fault.text)

    def timed_out(self, connection: Connection, authentication: Authentication) -> None:
        """It did not come: whoever is asked for it is at fault, not the client."""
        self.abandon(authentication)
        self.hub.stats.authentication_timeouts += 1
        timeout_s = connection.limits.authentication_timeout_s
        # SERVER_UNAVAILABLE is not among the reasons of a DISCONNECT.
        ready = connection.state == READY
        reason = reasons.SERVER_BUSY if ready else reasons.SERVER_UNAVAILABLE
        connection.fail(reason, f"authentication has not answered within {timeout_s:g} s")

    def abandon(self, authentication: Authentication) -> None:
        """Nobody waits for the answer any more, if there is one to come."""
        later = authentication.later
        if later is None:
            return
        authentication.later = None
        try:
            later.abandon()
        except Exception as error:
            # What an authenticator does then must not keep the connection from ending.
            self.hub.events.crashed("the end of an authentication", error)

    def _act(self, connection: Connection, authentication: Authentication, step: Step) -> None:
        method = authentication.method
        if step.outcome == CONTINUE:  # [MQTT-4.12.0-2]
            connection.write(encode.auth(reasons.CONTINUE_AUTHENTICATION, method, step.data))
            return
        authentication.exchange = None
        packet = authentication.packet
        if step.outcome == FAILURE:  # [MQTT-4.12.0-4, MQTT-4.12.1-2]
            self._failed(connection, step, packet is None)
            return
        identity = step.identity
        assert identity is not None
        if packet is None:
            if identity.user != connection.principal.user:
                # As a wrong password, also for the guard: who is connected could otherwise try
                # those of others, and would be told which one is right.
                other = failure("re-authentication as another user")
                other.user = identity.user
                self._failed(connection, other, True)
                return
            self._identify_again(connection, identity)
            connection.write(encode.auth(reasons.SUCCESS, method, step.data))
            return
        authentication.packet = None
        if not method:
            connection.authentication = None
        connection.principal = connection.principal.identified(identity)
        self._accept(connection, packet, step.data)

    def _failed(self, connection: Connection, step: Step, again: bool) -> None:
        """It could not prove who it is; `again`: it was connected already."""
        if self.guard is not None and step.reason in CREDENTIALS:
            user = step.user or connection.principal.claimed_user
            if self._kept_out(connection, self.guard.failed(connection.principal, user)):
                return
        reason = reasons.NOT_AUTHORIZED if again else step.reason
        connection.fail(reason, step.text, reasons.name(reason))

    def _identify_again(self, connection: Connection, identity: Identity) -> None:
        """A re-authentication: the user is the same, what it may do may have changed."""
        session = connection.owner()
        connection.principal = connection.principal.identified(identity)
        self.hub.set_principal(session, connection.principal)
        if session.sid:
            self.hub.require_journal().session(session)
        self.hub.review_quota(session, connection)
        self._set_expiry(connection)
        self.hub.wheel.arm(connection, connection.deadline())

    def _set_expiry(self, connection: Connection) -> None:
        """How long the connection may last, by what its client has proved; ProtocolFault: no time.

        Identities tell it as time of day, which the hub's clock knows nothing of.
        """
        expires_at = connection.principal.expires_at
        connection.expires_at = 0.0
        if expires_at:
            unix_time = self.hub.unix_time
            left_s = expires_at - (self.hub.now if unix_time is None else unix_time())
            if left_s <= 0:
                raise ProtocolFault(reasons.NOT_AUTHORIZED, "the authentication has expired")
            connection.expires_at = self.hub.now + left_s

    def check_connect(self, connection: Connection) -> None:
        """Whether a client may connect, once it is known who it is."""
        hub = self.hub
        authorizer = hub.authorizer
        if authorizer is None:
            return
        connection.rights = hub.rights
        principal = connection.principal
        reason = authorizer.connect(principal)
        if reason:
            hub.stats.connect_denied += 1
            hub.events.denied(connection, events.CONNECT, principal.client_id, reason)
            raise ProtocolFault(reason, f"not authorized to connect as {principal.client_id!r}")

    # The answer

    def _accept(self, connection: Connection, packet: Connect, auth_data: bytes) -> None:
        """It is known who it is: everything else that a CONNECT asks for is decided here."""
        hub = self.hub
        principal = connection.principal
        hub.set_limits(connection)
        allowed = connection.limits
        if not principal.is_verified() and not allowed.allow_anonymous:
            raise ProtocolFault(reasons.NOT_AUTHORIZED, "anonymous clients are not allowed here")
        if allowed.username_as_client_id:
            if not principal.is_verified():
                raise ProtocolFault(
                    reasons.NOT_AUTHORIZED,
                    "the client id is the user name here, and the user is not authenticated",
                )
            packet.client_id = principal.client_id = principal.user
        if hub.is_deleted is not None and principal.user and hub.is_deleted(principal):
            raise ProtocolFault(reasons.NOT_AUTHORIZED, "the user was deleted meanwhile")
        # Before all that only somebody with the right password would be told.
        if self.guard is not None and self._kept_out(connection, self.guard.admitted(principal)):
            return
        self._check_open()  # it was, when the authentication began
        client_id, assigned = self._client_id(connection, packet)
        principal.client_id = client_id
        self.check_connect(connection)
        self._set_expiry(connection)
        hub.check_session_limit(connection, client_id)
        if principal.user or principal.tenant:
            hub.check_accounts(connection, client_id)
        self._check_will(connection, packet)
        keepalive_s = _granted_keepalive_s(packet, allowed)
        expiry_s = _granted_expiry_s(packet, allowed)
        connection.client_id = client_id
        connection.keepalive_s = keepalive_s
        answer = b""
        if packet.version == V5:
            answer = self._capabilities(connection, packet, expiry_s, assigned, auth_data)
            if len(encode.connack_v5(False, 0, answer)) > connection.max_packet_out:
                raise ProtocolFault(
                    reasons.PACKET_TOO_LARGE, "the Maximum Packet Size leaves no room for a CONNACK"
                )
        connection.welcome = Welcome(packet, expiry_s, answer)
        peers = hub.peers
        if peers is None or not peers.table.sessions:
            self.welcome(connection)
            return
        self.waiting[connection] = True
        if not peers.neighbours.claim(connection):
            self.welcome(connection)

    def welcome(self, connection: Connection) -> None:
        """Connect a client with its session, and say so."""
        hub = self.hub
        allowed = connection.limits
        welcome = connection.welcome
        assert welcome is not None
        connection.welcome = None
        if self.waiting:
            self.waiting.pop(connection, None)
        packet = welcome.packet
        given = packet.properties
        expiry_s = welcome.expiry_s
        waited = connection.state == WAITING
        before = hub.sessions.get(connection.client_id)
        stored = before is not None and before.sid != 0
        session, present = hub.attach(connection, packet.clean)
        session.epoch = connection.epoch
        if hub.peers is not None:
            hub.peers.table.own(session.client_id, session.epoch, True)
        session.expiry_s = expiry_s
        if present and hub.peers is not None:
            hub.router.lasts(session.subscriptions, expiry_s > 0)
        session.will = None if packet.will is None else Will(packet.will, packet.will_delay_s)
        session.inflight.window = min(
            given.number(properties.RECEIVE_MAXIMUM, allowed.max_inflight), allowed.max_inflight
        )
        max_aliases = min(
            given.number(properties.TOPIC_ALIAS_MAXIMUM, 0), allowed.max_topic_alias_out
        )
        if max_aliases:
            connection.aliases = TopicAliases()
            connection.aliases.max_outgoing = max_aliases
        connection.state = READY
        connection.received_at = hub.now  # it may have waited for its session
        hub.wheel.arm(connection, connection.deadline())
        if hub.journal is not None and (stored or expiry_s):
            if session.sid or expiry_s:
                hub.journal.session(session)
                if session.state_lost:
                    hub.journal.note(STATE_LOST + session.client_id, "1")
            connection.hold_output(hub.journal.mark())
        if packet.version < V5:
            # MQTT 3.1 has no Session Present.
            connection.write(encode.connack_v3(present and packet.version != V31, 0))
        else:
            answer = welcome.answer
            if present and session.withdrawn is not None:
                answer = self._with_withdrawn(connection, answer, session.withdrawn)
            connection.write(encode.connack_v5(present, 0, answer))
        session.withdrawn = None
        hub.events.connected(connection, present)
        session.resume(connection)
        session.drain_queue(hub.portion)
        if waited:
            hub.continue_later(connection)
            if self.guard is not None:
                # A ban may have come while it waited.  The session has arrived, and belongs to a
                # client that was connected: so it is, and not for long.
                refusal = self.guard.admitted(connection.principal)
                if refusal is not None:
                    hub.dismiss(connection, refusal.reason, refusal.told)

    def _with_withdrawn(self, connection: Connection, answer: bytes, withdrawn: list[str]) -> bytes:
        """Tell a client which subscriptions it has lost while it was away, if there is room."""
        if not connection.problem_info:
            return answer
        told = answer + properties.text(properties.REASON_STRING, describe_withdrawn(withdrawn))
        if len(encode.connack_v5(True, 0, told)) > connection.max_packet_out:  # [MQTT-3.2.2-19]
            return answer
        return told

    def _client_id(self, connection: Connection, packet: Connect) -> tuple[str, bool]:
        """The client id to use, and whether it was made here."""
        allowed = connection.limits
        client_id = packet.client_id
        if not client_id:
            if not allowed.allow_empty_client_id or packet.version == V31:
                raise ProtocolFault(reasons.CLIENT_ID_NOT_VALID, "an empty client id")
            if packet.version < V5 and not packet.clean:  # [MQTT-3.1.3-8]
                raise ProtocolFault(
                    reasons.CLIENT_ID_NOT_VALID, "an empty client id with Clean Session 0"
                )
            client_id = allowed.client_id_prefix + self.hub.token()
            while client_id in self.hub.sessions:  # [MQTT-3.2.2-16]
                client_id = allowed.client_id_prefix + self.hub.token()
            return client_id, True
        longest = allowed.max_client_id_length
        if packet.version == V31:
            longest = min(longest, allowed.max_client_id_length_v31)
        if len(client_id) > longest:  # [MQTT-3.1.3-9, MQTT-3.1.3-8]
            raise ProtocolFault(
                reasons.CLIENT_ID_NOT_VALID,
                f"a client id of {len(client_id)} characters, at most {longest} are allowed",
            )
        return client_id, False

    def _capabilities(
        self,
        connection: Connection,
        packet: Connect,
        expiry_s: int,
        assigned: bool,
        auth_data: bytes,
    ) -> bytes:
        """The properties of a CONNACK: what differs from the client's wish or MQTT's default."""
        allowed = connection.limits
        wish = packet.properties.number(properties.SESSION_EXPIRY, 0)
        answer = b""
        if expiry_s != wish:
            answer += properties.number(properties.SESSION_EXPIRY, expiry_s)
        answer += _offer(allowed)
        if assigned:
            answer += properties.text(properties.ASSIGNED_CLIENT_ID, connection.client_id)
        if connection.keepalive_s != packet.keepalive_s:
            answer += properties.number(properties.SERVER_KEEP_ALIVE, connection.keepalive_s)
        if connection.authentication is not None:
            method = connection.authentication.method  # the enhanced one: it stays for AUTH
            answer += properties.text(properties.AUTH_METHOD, method)
            if auth_data:
                answer += properties.binary(properties.AUTH_DATA, auth_data)
        return answer

    def refuse(self, connection: Connection, reason: int, text: str, told: str) -> None:
        """Say no to a CONNECT, where the client's version has words for it; the caller closes.

        `told` is for the client, `text` for the log.
        """
        if connection.version == V5:
            code = reason if reason in CONNACK_REASONS else reasons.PROTOCOL_ERROR
            reference = self.hub.reference(reason)
            refusal = encode.refusal_v5(code, told, connection.max_packet_out, reference)
            if len(refusal) <= connection.max_packet_out:
                connection.write(refusal)
        elif connection.version:
            code_or_none = reasons.V3_RETURN_CODES.get(reason)
            if code_or_none is not None:
                connection.write(encode.connack_v3(False, code_or_none))
        self.hub.events.refused(connection, reason, text)


def _granted_keepalive_s(packet: Connect, allowed: Limits) -> int:
    asked_s = packet.keepalive_s
    is_off = asked_s == 0
    if asked_s <= allowed.max_keepalive_s and (allowed.allow_keepalive_off or not is_off):
        return asked_s
    if packet.version < V5:  # it cannot be told another value
        raise ProtocolFault(
            reasons.CLIENT_ID_NOT_VALID,
            f"keep-alive {asked_s} s, at most {allowed.max_keepalive_s} s are allowed",
        )
    return allowed.max_keepalive_s


def _granted_expiry_s(packet: Connect, allowed: Limits) -> int:
    """How long the session may outlive its connection."""
    if packet.version < V5:
        return 0 if packet.clean else allowed.session_expiry_v3_s
    asked_s = packet.properties.number(properties.SESSION_EXPIRY, 0)
    return min(asked_s, allowed.max_session_expiry_s)


def _offer(allowed: Limits) -> bytes:
    """The part of a CONNACK that is the same for every client of a listener."""
    offer = properties.number(properties.MAXIMUM_PACKET_SIZE, allowed.max_packet_size)
    if allowed.receive_maximum < 65535:
        offer += properties.number(properties.RECEIVE_MAXIMUM, allowed.receive_maximum)
    if allowed.max_topic_alias:
        offer += properties.number(properties.TOPIC_ALIAS_MAXIMUM, allowed.max_topic_alias)
    if allowed.max_qos < 2:  # [MQTT-3.2.2-9]
        offer += properties.number(properties.MAXIMUM_QOS, allowed.max_qos)
    if not allowed.retain_available:
        offer += properties.number(properties.RETAIN_AVAILABLE, 0)
    if not allowed.wildcard_subscriptions:
        offer += properties.number(properties.WILDCARD_AVAILABLE, 0)
    if not allowed.shared_subscriptions:
        offer += properties.number(properties.SHARED_AVAILABLE, 0)
    return offer
