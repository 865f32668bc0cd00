"""What the chapters on MQTT 5 share: packets of version 5, reason codes, how a broker says no."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Any

from tests.helpers import packets
from tests.helpers.broker import BrokerCase
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop

connect = partial(packets.connect, version=5)
publish = partial(packets.publish, version=5)
subscribe = partial(packets.subscribe, version=5)
unsubscribe = partial(packets.unsubscribe, version=5)

NOT_UTF8 = (
    b"\xff",
    b"a\x80",
    b"\xc0\xaf",  # "/" in two bytes
    b"\xe2\x82",  # cut off
    b"\xed\xa0\x80",  # U+D800
    b"\xed\xbf\xbf",  # U+DFFF
    b"\xf4\x90\x80\x80",  # beyond U+10FFFF
)
"""Byte strings that are no UTF-8; the two surrogates are what sloppy encoders write."""


class Reason(IntEnum):
    """Reason codes, as far as the tests look for them."""

    SUCCESS = 0x00
    WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    VERSION = 0x84
    CLIENT_ID = 0x85
    BAD_USER = 0x86
    NOT_AUTHORIZED = 0x87
    SHUTTING_DOWN = 0x8B
    BAD_METHOD = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    FILTER_INVALID = 0x8F
    TOPIC_INVALID = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM = 0x93
    ALIAS_INVALID = 0x94
    TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT = 0x99
    NO_RETAIN = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    NO_SHARED = 0x9E
    NO_WILDCARDS = 0xA2


class Mqtt5Case(BrokerCase):
    """A broker, clients of version 5, and the ways in which one is turned away."""

    version = 5

    def setUp(self) -> None:
        super().setUp()
        self.wrong: list[str] = []

    def tearDown(self) -> None:
        super().tearDown()
        if self.wrong:
            self.fail("\n".join(self.wrong))

    @contextmanager
    def case(self, *what: Any) -> Iterator[None]:
        """One row of a table: a row that fails does not hide those behind it."""
        try:
            yield
        except (self.failureException, packets.Malformed) as error:
            self.wrong.append(f"{what}: {error}")

    def resume(
        self, client_id: str = "c", expiry_s: int = 1000, props: Any = (), **args: Any
    ) -> RawClient:
        """Connect to a session that outlives the connection, the old one where there is one."""
        args["props"] = [(Prop.SESSION_EXPIRY, expiry_s), *props]
        return self.connect(client_id, clean=False, **args)

    def watcher(self, filter: str = "#", qos: int = 2) -> RawClient:
        """A client of its own that sees what others publish."""
        client = self.connect("watcher")
        client.subscribe(filter, qos)
        return client

    def refused(self, data: bytes, *reasons: int) -> Packet:
        """The broker answers this CONNECT with a CONNACK that says why, and closes."""
        client = self.open()
        client.send(data)
        connack = client.closed_after("CONNACK")
        assert connack is not None
        self.assertIn(connack.reason, reasons)
        return connack

    def closed_at_connect(self, data: bytes, *reasons: int) -> None:
        """The broker closes; a CONNACK with one of these reasons may come first, nothing else."""
        client = self.open()
        client.send(data)
        for packet in client.drain():
            self.assertEqual("CONNACK", packet.type)
            self.assertIn(packet.reason, reasons)
        client.expect_closed()

    def cut_off(self, client: RawClient, data: bytes, *reasons: int) -> Packet:
        """The broker answers this with a DISCONNECT that says why, and closes."""
        client.send(data)
        disconnect = client.closed_after("DISCONNECT")
        assert disconnect is not None
        self.assertIn(disconnect.reason, reasons)
        return disconnect
