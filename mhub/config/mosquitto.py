"""Where each option of mosquitto.conf went: for the documentation, error messages and the import.

The options are those of Mosquitto 2.1's manual page, and older ones that it still takes.
"""

from typing import Final

ACCESS: Final = "plugins are not taken over; see `auth` and `access`"

# option: (our keys, a note).  No key: we do not offer it, and the note says what to do instead.
OPTIONS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    # Listeners
    "listener": (
        ("listeners.port", "listeners.host", "listeners.path"),
        "one `[[listeners]]` table each",
    ),
    "port": (
        ("listeners.port",),
        "there is no default listener to configure apart from the others",
    ),
    "bind_address": (("listeners.host",), "an address, not a name; without it, loopback only"),
    "bind_interface": (("listeners.bind_interface",), ""),
    "socket_domain": (("listeners.host",), '`"0.0.0.0"` for IPv4, `"::"` for both'),
    "protocol": (
        ("listeners.transport",),
        '`"tcp"`, `"tls"`, `"ws"`, `"wss"` or `"unix"`: TLS is named, not inferred',
    ),
    "max_connections": (("listeners.max_connections",), "0 instead of -1 is any number"),
    "global_max_connections": (("limits.max_connections",), ""),
    "global_max_clients": (("limits.max_sessions",), "there is `listeners.max_sessions`, too"),
    "mount_point": (("listeners.mount_point",), ""),
    "use_username_as_clientid": (("listeners.username_as_client_id",), ""),
    "accept_protocol_versions": (("listeners.versions",), 'a list: `["3.1.1", "5.0"]`'),
    "enable_proxy_protocol": (("listeners.proxy_protocol",), "true takes versions 1 and 2"),
    "set_tcp_nodelay": (("listeners.tcp_nodelay",), "on unless you turn it off"),
    "websockets_headers_size": (("listeners.max_handshake_size",), ""),
    "websockets_origin": (("listeners.origins",), "a list"),
    "websockets_log_level": ((), "WebSockets log like everything else: see `log.level`"),
    "http_dir": ((), "the broker serves no files; use a web server"),
    "listener_allow_anonymous": (("listeners.allow_anonymous",), ""),
    "listener_auto_id_prefix": (("listeners.client_id_prefix",), ""),
    "proxy_protocol_v2_require_tls": ((), "let the proxy refuse what comes without TLS"),
    "packet_buffer_size": (("listeners.max_handshake_size",), "for the handshake of WebSockets"),
    "per_listener_settings": (
        (),
        "always so: a key of a listener stands above the same key of `[limits]`",
    ),
    # TLS
    "certfile": (
        ("listeners.tls.certificate",),
        "further certificates by server name: `listeners.tls.sni`",
    ),
    "keyfile": (("listeners.tls.key",), "without a passphrase"),
    "cafile": (("listeners.tls.ca",), "it completes the broker's own chain, too"),
    "capath": (("listeners.tls.ca",), "one file with all the certificates"),
    "crlfile": (("listeners.tls.crl",), ""),
    "require_certificate": (
        ("listeners.tls.client_certificate",),
        '`"required"`; there is also `"optional"`',
    ),
    "use_identity_as_username": (("auth.identity",), 'type `"certificate"`, `"cn"`'),
    "use_subject_as_username": (("auth.identity",), 'type `"certificate"`, `"subject"`'),
    "tls_version": (("listeners.tls.min_version",), "the lowest version, not the only one"),
    "ciphers": (("listeners.tls.ciphers",), "for TLS 1.2"),
    "ciphers_tls1.3": (("listeners.tls.ciphersuites",), "a list"),
    "dhparamfile": ((), "key exchange is by elliptic curves, which need no file"),
    "tls_engine": ((), "no OpenSSL engines"),
    "tls_engine_kpass_sha1": ((), "no OpenSSL engines"),
    "tls_keyform": ((), "keys are PEM files"),
    "disable_client_cert_date_checks": ((), "a certificate that has expired proves nothing"),
    "psk_file": ((), "no pre-shared keys; use certificates"),
    "psk_hint": ((), "no pre-shared keys; use certificates"),
    "use_psk": ((), "no pre-shared keys; use certificates"),
    # Clients and sessions
    "allow_anonymous": (("limits.allow_anonymous",), "also for one listener"),
    "allow_zero_length_clientid": (("limits.allow_empty_client_id",), "also for one listener"),
    "auto_id_prefix": (("limits.client_id_prefix",), "also for one listener"),
    "clientid_prefixes": ((), "a client id is no proof of who it is; use authentication"),
    "max_keepalive": (
        ("limits.max_keepalive_s", "limits.allow_keepalive_off"),
        "keep-alive 0 has its own key",
    ),
    "max_packet_size": (("limits.max_packet_size",), ""),
    "message_size_limit": (("limits.message_size_limit",), "also for one listener"),
    "max_inflight_messages": (
        ("limits.max_inflight", "limits.receive_maximum"),
        "to the client, and from it",
    ),
    "max_inflight_bytes": (("limits.max_inflight_bytes",), "also for one listener"),
    "max_queued_messages": (
        ("limits.max_queued_messages", "limits.queue_full"),
        "what happens then is a choice",
    ),
    "max_queued_bytes": (
        ("limits.max_queued_bytes",),
        "either bound counts, whichever is met first",
    ),
    "queue_qos0_messages": (("limits.queue_qos0_offline",), ""),
    "max_qos": (("limits.max_qos",), "also for one listener"),
    "max_topic_alias": (("limits.max_topic_alias",), "also for one listener"),
    "max_topic_alias_broker": (("limits.max_topic_alias_out",), "also for one listener"),
    "retain_available": (("limits.retain_available",), "also for one listener"),
    "persistent_client_expiration": (
        ("limits.max_session_expiry_s", "limits.session_expiry_v3_s"),
        '`"60d"` and so on',
    ),
    "memory_limit": ((), "bound what holds memory: connections, queues, retained messages"),
    "upgrade_outgoing_qos": ((), "a message never gets a higher QoS than it was published with"),
    "allow_duplicate_messages": ((), "overlapping subscriptions deliver a message once"),
    "retain_expiry_interval": ((), "always: expired retained messages go within a minute"),
    # Users and rules
    "acl_file": (
        ("access.policy",),
        "made into rules by `mhub import` and `mhub ctl policy import-mosquitto`",
    ),
    "auth_plugin": ((), ACCESS),
    "auth_plugin_deny_special_chars": ((), ACCESS),
    "check_retain_source": (
        (),
        "never: a retained message stays though its publisher may not publish there any more",
    ),
    "global_plugin": ((), ACCESS),
    "plugin": ((), ACCESS),
    "plugin_load": ((), ACCESS),
    "plugin_use": ((), ACCESS),
    "plugin_opt_*": ((), ACCESS),
    "auth_opt_*": ((), ACCESS),
    # The store
    "persistence": (
        ("store.kind",),
        'on unless you turn it off: `"memory"`; `"sqlite"` and `"redis"` persist',
    ),
    "persistence_location": (("store.path",), "with the name of the file"),
    "persistence_file": (("store.path",), "with the folder"),
    "autosave_interval": (
        ("store.synchronous",),
        "all is stored as it happens; what a loss of power may cost is a choice",
    ),
    "autosave_on_changes": (("store.synchronous",), "the same"),
    "retained_persistence": (("store.kind",), "the old name of `persistence`"),
    # The broker
    "sys_interval": (("sys.interval_s",), ""),
    "password_file": (
        ("auth.file",),
        'type `"password-file"`; the file is read as it is',
    ),
    "log_type": (("log.level",), "a threshold"),
    "connection_messages": (
        ("log.level",),
        '`"warn"` leaves them out, with all else that is logged at `info`',
    ),
    "log_dest": (("log.to", "log.file", "log.syslog"), "`$SYS` has no log"),
    "log_facility": (("log.facility",), "by name"),
    "log_timestamp": ((), "always"),
    "log_timestamp_format": ((), "ISO 8601"),
    "enable_control_api": ((), "`$CONTROL` is not used; see `mhub ctl cluster` and `[control]`"),
    "retry_interval": ((), "messages are sent again after a reconnect only, as MQTT asks for"),
    "include_dir": ((), "one file; `mhub import` reads all of them into it"),
    "pid_file": ((), "`mhub run` writes none; `twistd --pidfile`"),
    "user": ((), "the service manager, or `twistd --uid --gid`"),
}


BRIDGE_OPTIONS: Final = frozenset(
    {
        "address",
        "addresses",
        "bridge_alpn",
        "bridge_attempt_unsubscribe",
        "bridge_bind_address",
        "bridge_cafile",
        "bridge_capath",
        "bridge_certfile",
        "bridge_ciphers",
        "bridge_ciphers_tls1.3",
        "bridge_identity",
        "bridge_insecure",
        "bridge_keyfile",
        "bridge_max_packet_size",
        "bridge_max_topic_alias",
        "bridge_outgoing_retain",
        "bridge_protocol_version",
        "bridge_psk",
        "bridge_receive_maximum",
        "bridge_reload_type",
        "bridge_require_ocsp",
        "bridge_session_expiry_interval",
        "bridge_tcp_keepalive",
        "bridge_tcp_user_timeout",
        "bridge_tls_use_os_certs",
        "bridge_tls_version",
        "cleansession",
        "clientid",
        "idle_timeout",
        "keepalive_interval",
        "local_cleansession",
        "local_clientid",
        "local_password",
        "local_username",
        "notification_topic",
        "notifications",
        "notifications_local_only",
        "password",
        "remote_clientid",
        "remote_password",
        "remote_username",
        "restart_timeout",
        "round_robin",
        "start_type",
        "threshold",
        "topic",
        "try_private",
        "username",
    }
)
"""What follows a `connection`."""

BRIDGES: Final = "no bridges: nodes of one broker are a cluster, and a Mosquitto may bridge to mhub"


def note_of(option: str) -> str | None:
    """What is to say about an option that has no key, "" if there is nothing; None: unknown."""
    for prefix in ("plugin_opt_", "auth_opt_"):
        if option.startswith(prefix):
            option = prefix + "*"
    return OPTIONS[option][1].replace("`", "") if option in OPTIONS else None


def renamed(option: str) -> str:
    """What to write instead of an option of mosquitto.conf, or nothing when it is none."""
    if option not in OPTIONS:
        return ""
    keys, note = OPTIONS[option]
    if not keys:
        return f"mosquitto.conf has it, mhub does not: {note.replace('`', '')}"
    return f"what mosquitto.conf calls {option} is {' and '.join(keys)} here"
