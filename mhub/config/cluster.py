"""The keys of `[cluster]`: who this node is, whom it joins, and what it bears from its peers.

The checks that need more than one key are in `cluster_checks`.
"""

import re
from dataclasses import dataclass
from typing import Final

from mhub.config.kinds import (
    Boolean,
    Choice,
    FilePath,
    Host,
    HostPort,
    Integer,
    Seconds,
    Secret,
    Size,
    Text,
    join_address,
)
from mhub.config.schema import ListOf, Record, setting

MIN_SECRET: Final = 16  # characters
EVERY_ADDRESS: Final = ("0.0.0.0", "::")
DAY: Final = 86_400.0
TEN_YEARS: Final = 3650 * DAY

# The first is a letter or a digit: a command line takes a name with "-" for an option.
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL: Final = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


def _is_cluster(text: str) -> bool:
    return len(text) <= 64 and text.isprintable()


def _is_node(text: str) -> bool:
    return _NODE.fullmatch(text) is not None


def _is_dns_name(text: str) -> bool:
    return len(text) <= 254 and _DNS_NAME.fullmatch(text) is not None


@dataclass(frozen=True)
class ClusterTlsSettings:
    certificate: str = setting(
        FilePath(),
        "",
        "The certificate of this node, with its chain, as a PEM file. It must be valid for the"
        " node's name, which peers check.",
        required=True,
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", required=True
    )
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that the certificates of all nodes must come from, in one PEM file.",
        required=True,
    )


@dataclass(frozen=True, repr=False)  # no repr: it would show the secret
class ClusterSettings:
    name: str = setting(
        Text(empty=False, check=_is_cluster, what="1 to 64 printable characters"),
        "",
        "The name of the cluster; nodes with another one are refused.",
        required=True,
    )
    node: str = setting(
        Text(
            empty=False,
            check=_is_node,
            what='1 to 64 letters, digits, "-", "_" and ".", first a letter or a digit',
        ),
        "",
        "The name of this node, which no other node of the cluster may have. With `tls`, neither a"
        " number nor an address.",
        required=True,
    )
    host: str = setting(
        Host(),
        "127.0.0.1",
        'The address to listen on for peers. `"0.0.0.0"` is every IPv4 address of the machine,'
        ' `"::"` every address, IPv6 and IPv4.',
    )
    port: int = setting(Integer(0, 65535), 7883, "The port for peers; 0 takes any free one.")
    advertise: str = setting(
        HostPort(),
        "",
        "Where the other nodes reach this one.",
        shown='`host` and `port`; needed when `host` is `"0.0.0.0"` or `"::"`',
    )
    peers: tuple[str, ...] = setting(
        ListOf(HostPort()),
        (),
        "Nodes to join. Some of them are enough, as nodes tell each other whom they know; the first"
        " node of a cluster needs none.",
    )
    srv: str = setting(
        Text(check=_is_dns_name, what="a DNS name"),
        "",
        'A DNS name whose SRV records are nodes to join, as `"_mhub._tcp.example.org"`.',
        shown="none",
    )
    dns: tuple[str, ...] = setting(
        ListOf(HostPort(numeric=True)),
        (),
        "DNS servers to ask in the place of the system's, for the SRV records and for the addresses"
        " of nodes; `/etc/hosts` comes first.",
    )
    secret: str = setting(
        Secret(),
        "",
        f"What all nodes of the cluster know and nobody else, at least {MIN_SECRET} characters."
        " Needed without `tls`, and possible besides.",
        shown="none",
    )
    secret_file: str = setting(
        FilePath(),
        "",
        "A file with the secret, in the place of `secret`; read when the broker starts.",
        shown="none",
    )
    heartbeat_s: float = setting(
        Seconds(0.01, 3600), 1.0, "How often a node tells its peers that it is there."
    )
    suspect_s: float = setting(
        Seconds(0.01, 3600), 3.0, "A peer that was silent for so long is suspected."
    )
    dead_s: float = setting(
        Seconds(0.01, DAY),
        10.0,
        "A peer that was silent for so long is given up: its link is cut, what only its connected"
        " clients wanted is withdrawn, messages for its lasting sessions are kept.",
    )
    forget_s: float = setting(
        Seconds(0, TEN_YEARS),
        DAY,
        "A dead peer is forgotten after so long, with what was kept for it; 0 is never.",
    )
    sessions: bool = setting(
        Boolean(),
        True,
        "One session for each client id in the whole cluster. `false` saves traffic, and each node"
        " has its own.",
    )
    takeover_timeout_s: float = setting(
        Seconds(0.1, 3600), 10.0, "How long a CONNECT waits for the session from another node."
    )
    failover: bool = setting(
        Boolean(),
        True,
        'With `store.kind = "redis"`: whether this node takes over what a node that is gone has in'
        " the same Redis, and others may do so with what this one has. It needs `sessions`.",
    )
    suback_waits: bool = setting(
        Boolean(), True, "Whether a SUBACK for a new filter waits until the peers know of it."
    )
    shared: str = setting(
        Choice("spread", "local-first"),
        "spread",
        "Who gets the messages of a shared subscription: its members on all nodes in turn, or those"
        " on this node first.",
    )
    max_queued_messages: int = setting(
        Integer(1), 100_000, "How many messages of QoS 1 and 2 may wait for a peer."
    )
    max_queued_bytes: int = setting(Size(64 << 10), 64 << 20, "How much that may be in bytes.")
    queue_full: str = setting(
        Choice("refuse", "drop"),
        "refuse",
        "What happens to a message of QoS 1 or 2 for a peer whose queue is full. `refuse` tells the"
        " publisher: MQTT 5.0 by the reason 0x97, earlier versions by closing the connection"
        " without an acknowledgement. `drop` does not send it to that peer, and counts it.",
    )
    max_queued_bytes_qos0: int = setting(
        Size(0),
        8 << 20,
        "How much of QoS 0 may wait for a peer that does not keep up; what is beyond is dropped and"
        " counted.",
    )
    window_bytes: int = setting(
        Size(64 << 10), 4 << 20, "How much may be on its way to a peer unconfirmed."
    )
    retry_s: float = setting(
        Seconds(0.01, 3600),
        0.5,
        "The first wait before a peer is dialled again. It doubles with each failure, more or less,"
        " up to `retry_max_s`.",
    )
    retry_max_s: float = setting(
        Seconds(0.01, 3600), 15.0, "The longest wait before a peer is dialled again."
    )
    login_timeout_s: float = setting(
        Seconds(0.1, 3600), 5.0, "How long a connection to the port for peers may take to log in."
    )
    max_strangers: int = setting(
        Integer(1),
        64,
        "How many connections to the port for peers there may be at a time that have not logged in,"
        " of addresses where no node is known to be. When there are more, the one that has been"
        " silent for the longest time is closed, and counted. Addresses of nodes that have logged"
        " in before, and IP addresses in `peers`, are not among them.",
    )
    max_strangers_per_address: int = setting(
        Integer(1),
        32,
        "How many of these one address may have, known or not; an IPv6 network of 64 bits is one.",
    )
    tombstone_s: float = setting(
        Seconds(1, TEN_YEARS),
        DAY,
        "How long the deletion of a retained message is remembered. A node that was away for longer"
        " may bring the message back. The deletion of an entry of the registry is remembered at"
        " least as long, and until every known node has it.",
    )
    server_reference: str = setting(
        Text(),
        "",
        "What MQTT 5.0 clients are told to use instead when this node leaves, with the reason 0x9D"
        " Server moved. Without it they are told 0x9C Use another server.",
        shown="none",
    )
    tls: ClusterTlsSettings | None = setting(  # noqa: RUF009 (makes a field)
        Record(ClusterTlsSettings), None, "Encrypted links between nodes that show certificates."
    )

    @property
    def address(self) -> str:
        """Where this node listens for peers."""
        return join_address(self.host, self.port)

    def reached_at(self, port: int) -> str:
        """Where others reach this node, which listens on `port`: `port = 0` leaves it open."""
        return self.advertise or join_address(self.host, port)

    def read_secret(self) -> str:
        """The secret, wherever it stands; "" if there is none.  Raises OSError and ValueError."""
        if not self.secret_file:
            return self.secret
        with open(self.secret_file, encoding="utf-8") as file:
            return file.read().strip("\r\n")  # which an editor leaves at the end
