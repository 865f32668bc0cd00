"""Who a connection is: what it has proved, what it only says, and where it comes from.

There is one Principal for each connection, from the first byte on.  The transport fills in address,
listener and certificate, CONNECT the name that the client gives itself, and authentication the
rest, before anything is decided about the client: its client id, its will, its session.  The
session keeps it when the connection has ended, and the store keeps it with the session, so that a
decision about a client that is away rests on the same facts.

`user` is proved, and is "" as long as nothing is.  No transport of the network sets it: it is there
before a CONNECT only if whoever makes the connection in this process has proved it, and then no
authenticator is asked.  `claimed_user` is the User Name of a CONNECT
that nobody has checked: it is shown, and never decides anything.
"""

import json
from typing import Final

CERTIFICATE: Final = "certificate"
"""The method of a user whom TLS has proved, with the certificate of the client."""

NO_ATTRIBUTES: Final[dict[str, str]] = {}


class Certificate:
    """A client certificate that was verified: by TLS here, or by the proxy in front."""

    def __init__(
        self,
        common_name: str,
        subject: str = "",
        fingerprint: str = "",
        expires_at: float = 0.0,
        alternative_names: tuple[str, ...] = (),
    ) -> None:
        self.common_name = common_name  # "": there is none, or not a single one
        self.subject = subject  # as RFC 4514 writes it
        self.fingerprint = fingerprint  # SHA-256, in hex; "": the proxy does not say
        self.expires_at = expires_at  # seconds since 1970; 0: the proxy does not say
        self.alternative_names = alternative_names  # `dns:`, `uri:` or `email:`, and the name


class Principal:
    def __init__(self, address: str, listener: str) -> None:
        self.address = address
        self.listener = listener
        self.client_id = ""  # "": there was no CONNECT yet, or it wants one to be made
        self.user = ""
        self.claimed_user = ""
        self.method = ""  # what proved `user`: CERTIFICATE, an authentication method, ...
        self.roles: tuple[str, ...] = ()
        self.tenant = ""
        self.attributes = NO_ATTRIBUTES
        self.grants: tuple[str, ...] = ()  # rules for it alone, as lines of a policy
        self.expires_at = 0.0  # seconds since 1970: what proved it is not valid any longer; 0: ever
        self.certificate: Certificate | None = None

    def is_verified(self) -> bool:
        return self.user != ""

    def copy(self) -> "Principal":
        """Another one to be changed; this one may be known to others, who compare the two."""
        other = Principal(self.address, self.listener)
        other.client_id = self.client_id
        other.claimed_user = self.claimed_user
        other.certificate = self.certificate
        other.user = self.user
        other.method = self.method
        other.roles = self.roles
        other.tenant = self.tenant
        other.attributes = self.attributes
        other.grants = self.grants
        other.expires_at = self.expires_at
        return other

    def identified(self, identity: "Identity") -> "Principal":
        """The same one, with what authentication has found out about it."""
        known = self.copy()
        known.user = identity.user
        known.method = identity.method
        known.roles = identity.roles
        known.tenant = identity.tenant
        known.attributes = identity.attributes
        known.grants = identity.grants
        known.expires_at = identity.expires_at
        return known

    def owns(self, before: "Principal") -> bool:
        """Whether a session of that one is this one's, too, under the same client id.

        What waits for a proved user is for nobody else.  One that was anonymous may log in.
        """
        return self.owns_of(before.user)

    def owns_of(self, user: str) -> bool:
        """The same, of a session whose user is known alone; "": it has none."""
        return not user or user == self.user

    def receives_as(self, other: "Principal") -> bool:
        """Whether both may receive the same: what that rests on outlives connections."""
        return (
            self.user == other.user
            and self.roles == other.roles
            and self.tenant == other.tenant
            and self.attributes == other.attributes
            and self.grants == other.grants
            and self.listener == other.listener
            and self.common_name() == other.common_name()
        )

    def common_name(self) -> str:
        """Of the client's certificate; "": there is none."""
        return "" if self.certificate is None else self.certificate.common_name

    def to_text(self) -> str:
        """What a session keeps of it, as JSON; the session has client id and listener itself."""
        facts: dict[str, object] = {}
        if self.user:
            facts["user"] = self.user
        if self.claimed_user and self.claimed_user != self.user:
            facts["claimed_user"] = self.claimed_user
        if self.method:
            facts["method"] = self.method
        if self.roles:
            facts["roles"] = list(self.roles)
        if self.tenant:
            facts["tenant"] = self.tenant
        if self.attributes:
            facts["attributes"] = self.attributes
        if self.grants:
            facts["grants"] = list(self.grants)
        if self.expires_at:
            facts["expires_at"] = self.expires_at
        certificate = self.certificate
        if certificate is not None:
            facts["certificate"] = {
                "common_name": certificate.common_name,
                "subject": certificate.subject,
                "fingerprint": certificate.fingerprint,
                "expires_at": certificate.expires_at,
            }
        if self.address:
            facts["address"] = self.address
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""


NOBODY: Final = Principal("", "")
"""Of sessions that were never connected."""


class Identity:
    """What authentication finds out about a client."""

    def __init__(self, user: str, method: str) -> None:
        self.user = user
        self.method = method
        self.roles: tuple[str, ...] = ()
        self.tenant = ""
        self.attributes = NO_ATTRIBUTES
        self.grants: tuple[str, ...] = ()  # rules for it alone, as lines of a policy
        self.expires_at = 0.0  # seconds since 1970: when this is not valid any longer; 0: ever

    def copy(self) -> "Identity":
        """Not by the module `copy`, which cannot do that to a compiled class."""
        other = Identity(self.user, self.method)
        other.roles = self.roles
        other.tenant = self.tenant
        other.attributes = self.attributes
        other.grants = self.grants
        other.expires_at = self.expires_at
        return other


def principal_of(text: str, client_id: str, listener: str) -> Principal:
    """A principal as a session kept it.

    From text that is damaged comes one that has proved nothing, and so has the fewest rights.
    """
    principal = Principal("", listener)
    principal.client_id = client_id
    facts = _facts(text)
    principal.address = _text(facts, "address")
    principal.claimed_user = _text(facts, "claimed_user")
    principal.user = _text(facts, "user")
    principal.method = _text(facts, "method")
    principal.tenant = _text(facts, "tenant")
    principal.roles = _texts(facts, "roles")
    principal.grants = _texts(facts, "grants")
    principal.expires_at = _number(facts, "expires_at")
    certificate = facts.get("certificate")
    if isinstance(certificate, dict):
        principal.certificate = Certificate(
            _text(certificate, "common_name"),
            _text(certificate, "subject"),
            _text(certificate, "fingerprint"),
            _number(certificate, "expires_at"),
        )
    attributes = facts.get("attributes")
    if isinstance(attributes, dict):
        principal.attributes = {
            name: value for name, value in attributes.items() if isinstance(value, str)
        }
    return principal


def _facts(text: str) -> dict[str, object]:
    try:
        facts = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _text(facts: dict[str, object], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def _number(facts: dict[str, object], name: str) -> float:
    value = facts.get(name)
    try:
        return float(value) if isinstance(value, (int, float)) else 0.0
    except OverflowError:
        return 0.0


def _texts(facts: dict[str, object], name: str) -> tuple[str, ...]:
    values = facts.get(name)
    if not isinstance(values, list):
        return ()
    return tuple([value for value in values if isinstance(value, str)])
