"""One row of a policy: what may be written in it, and what it means.

    p, SUBJECT, TENANT, ACTION, TOPIC, CONDITION, EFFECT      a rule
    g, SUBJECT, ROLE, TENANT                                  a role, for a user or another role

    SUBJECT    user:NAME or role:NAME, two namespaces: a user called admin is not role:admin
    TENANT     a name, or * for all of them and for clients without a tenant
    ACTION     connect, publish, subscribe, receive; several joined by |; * for all four
               admin:read, admin:write, or both: what may be asked of the broker over HTTP
    TOPIC      an MQTT filter.  Inside of its levels may stand
                   %u  the user, if proved     %c  the client id         %t  the tenant
                   %{cn}  the common name of the client certificate      %{NAME}  an attribute
               and %% for a percent sign.  For `connect` the topic is the client id, for
               `admin:...` it is the resource (`mhub.access.resources`), without placeholders
    CONDITION  any, or terms joined by &: qos=N, qos<=N, retain=yes, retain=no
    EFFECT     allow or deny

A row is decided by each field on its own, so what a row means does not depend on any other row,
nor on their order.  All rows that match count; one that denies is stronger than all that allow; and
what no row allows is denied.

A placeholder stands for one level, or a part of one.  A value that is empty, or has one of `+ # /`
or NUL, matches nothing: a client that calls itself `#` does not get everybody's topics.  The same
holds for a value that begins with `$` where the pattern begins: like a leading wildcard
[MQTT-4.7.2-1], a placeholder there never means the broker's own topics.

What decides, as bits
    A mask has a bit for each question that can be asked about a topic: publish by QoS and retain
    (6), subscribe by QoS (3), receive, connect; and about a resource: admin:read, admin:write.
    Action and condition of a row together are such a mask. The broker decides about `receive` once
    for a topic, whatever messages come, and a subscription has no retain flag.  So a condition that
    would need more is refused here, not ignored.

    `*` has the bits of MQTT alone.  A rule that was written before there was an admin side, or by
    somebody who thought of topics, must not make anybody an administrator; and a row is about
    topics or about resources, never about both.

What PyCasbin would read differently
    Its CSV reader gives `( ) [ ] , "` a meaning of its own and strips outer white space; our rows
    are the same text in the registry, in a file of ours and for PyCasbin's own reader.  So these
    characters are written as %XX, in names and in topics alike: `user:CN=a%2CO=b`.  In a name `%`
    is %25 (there are no placeholders), in a topic %%.  Each name has exactly one spelling, because
    Casbin compares text.
"""

import hashlib
from typing import Final

from mhub.wire.topics import filter_problem

# Actions
CONNECT: Final = "connect"
PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
RECEIVE: Final = "receive"
ADMIN_READ: Final = "admin:read"
ADMIN_WRITE: Final = "admin:write"
MQTT_ACTIONS: Final = (CONNECT, PUBLISH, SUBSCRIBE, RECEIVE)  # what * stands for
ADMIN_ACTIONS: Final = (ADMIN_READ, ADMIN_WRITE)

# The bits of a mask
PUBLISH_BITS: Final = 0b000_0011_1111  # 1 << (qos * 2 + retain)
SUBSCRIBE_BITS: Final = 0b001_1100_0000  # 1 << (6 + qos)
RECEIVE_BIT: Final = 1 << 9
CONNECT_BIT: Final = 1 << 10
ADMIN_READ_BIT: Final = 1 << 11
ADMIN_WRITE_BIT: Final = 1 << 12
ADMIN_BITS: Final = ADMIN_READ_BIT | ADMIN_WRITE_BIT

BITS_OF: Final[dict[str, int]] = {
    CONNECT: CONNECT_BIT,
    PUBLISH: PUBLISH_BITS,
    SUBSCRIBE: SUBSCRIBE_BITS,
    RECEIVE: RECEIVE_BIT,
    ADMIN_READ: ADMIN_READ_BIT,
    ADMIN_WRITE: ADMIN_WRITE_BIT,
}

# Roles that everybody has by what they are.  Nobody can be given them.
EVERYONE: Final = "role:everyone"
AUTHENTICATED: Final = "role:authenticated"
ANONYMOUS: Final = "role:anonymous"
BUILT_IN: Final = (EVERYONE, AUTHENTICATED, ANONYMOUS)

SELF: Final = "self"
"""The subject of rules that an authenticator gave to one client alone."""

ALL_TENANTS: Final = "*"
MOST_LEVELS: Final = 200

# Kinds of a level of a pattern
NAME: Final = 0
PLUS: Final = 1  # "+"
REST: Final = 2  # "#"
HOLE: Final = 3  # a name with placeholders in it

# Kinds of a part of a level
TEXT: Final = 0
USER: Final = 1
CLIENT: Final = 2
TENANT: Final = 3
COMMON_NAME: Final = 4
ATTRIBUTE: Final = 5

_ESCAPED_IN_TOPICS: Final = {
    "20": " ",
    "22": '"',
    "28": "(",
    "29": ")",
    "2C": ",",
    "5B": "[",
    "5D": "]",
}
_MANGLED: Final = '()[],"'


class RowError(ValueError):
    """A row that is refused: where it stands, and why."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}" if place else text)
        self.place = place
        self.text = text


class Part:
    """A piece of a level: text as it stands, or a placeholder."""

    def __init__(self, kind: int, text: str) -> None:
        self.kind = kind
        self.text = text  # of TEXT; of ATTRIBUTE its name; else as it is written


class Level:
    def __init__(self, kind: int, text: str) -> None:
        self.kind = kind
        self.text = text  # of NAME the name itself, else as it is written
        self.parts: list[Part] = []  # of HOLE


class Row:
    """A row that is well formed.  Made by parse_row()."""

    def __init__(self, row_id: str, fields: tuple[str, ...], place: str) -> None:
        self.id = row_id
        self.kind = fields[0]
        self.fields = fields  # with the kind, as they are written
        self.place = place  # file and line, or key in the registry
        self.subject = fields[1]
        self.role = ""  # of g
        self.tenant = ALL_TENANTS
        self.allows = False  # of p, as all that follows
        self.mask = 0
        self.pattern = ""
        self.levels: list[Level] = []

    def __repr__(self) -> str:
        return f"<{self.id} {self.text()}>"

    def text(self) -> str:
        """As in a CSV file."""
        return ", ".join(self.fields)


def parse_row(fields: list[str] | tuple[str, ...], place: str = "") -> Row:
    """A row, from its fields with the kind as the first.  Raises RowError."""
    kind = fields[0] if fields else ""
    if kind != "p" and kind != "g":
        raise RowError(place, f"a row begins with p or g, not with {kind!r}")
    wanted = 7 if kind == "p" else 4
    if len(fields) != wanted:
        form = "p, SUBJECT, TENANT, ACTION, TOPIC, CONDITION, EFFECT"
        if kind == "g":
            form = "g, SUBJECT, ROLE, TENANT"
        raise RowError(place, f"{len(fields)} fields, {wanted} are needed: {form}")
    for field in fields:
        problem = field_problem(field)
        if problem:
            raise RowError(place, f"{field!r}: {problem}")
    row = Row(row_id_of(fields), tuple(fields), place)
    _check_subject(row.subject, place)
    if kind == "g":
        row.role = fields[2]
        row.tenant = fields[3]
        if not row.role.startswith("role:"):
            raise RowError(place, f"{row.role!r}: only roles can be given, as role:NAME")
        _check_subject(row.role, place)
        if row.role in BUILT_IN:
            raise RowError(place, f"{row.role} can be given to nobody: clients have it or not")
        if row.role == row.subject:
            raise RowError(place, f"{row.role} is given to itself")
    else:
        row.tenant = fields[2]
        _parse_rule(row, fields[3], fields[4], fields[5], fields[6])
    _check_name(row.tenant, "a tenant", place)
    return row


def parse_grant(line: str, place: str = "") -> Row:
    """A rule without subject and tenant, for one client alone: `publish, a/%c/#, any, allow`."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        raise RowError(place, f"{line!r}: a grant has the form ACTION, TOPIC, CONDITION, EFFECT")
    for field in fields:
        problem = field_problem(field)
        if problem:
            raise RowError(place, f"{field!r}: {problem}")
    full = ("p", SELF, ALL_TENANTS, *fields)
    row = Row(row_id_of(full), full, place)
    _parse_rule(row, fields[0], fields[1], fields[2], fields[3])
    return row


def row_id_of(fields: list[str] | tuple[str, ...]) -> str:
    """The same on each node and after each restart: a digest of the fields."""
    return hashlib.sha256("\0".join(fields).encode("utf-8", "replace")).hexdigest()[:12]


def field_problem(field: str) -> str:
    """What PyCasbin's CSV reader would make something else of, "" if nothing."""
    if not field:
        return "a field is empty"
    if field != field.strip():
        return "white space at its ends would be lost: write it as %20"
    for char in field:
        if char in _MANGLED:
            return f"write %{ord(char):02X} for {char}, which has a meaning in Casbin's CSV"
        if char < " " or char == "\x7f" or (char != " " and char.isspace()):
            return "control characters and white space other than a space cannot be written here"
        if 0xD800 <= ord(char) <= 0xDFFF:
            return "half a surrogate pair is no character"
    return ""


# Names


def user_subject(user: str) -> str:
    return "user:" + quote(user)


def role_subject(role: str) -> str:
    return "role:" + quote(role)


def quote(name: str) -> str:
    """The one spelling of a name in a row: what a row cannot have, as %XX of its UTF-8."""
    if name.isalnum():
        return name
    last = len(name) - 1
    quoted: list[str] = []
    for index, char in enumerate(name):
        inner = char == " " and 0 < index < last
        if not inner and (
            char in _MANGLED or char == "%" or char < " " or char == "\x7f" or char.isspace()
        ):
            for byte in char.encode("utf-8"):
                quoted.append(f"%{byte:02X}")
        else:
            quoted.append(char)
    return "".join(quoted)


def unquote(text: str) -> str:
    """The name of a spelling.  ValueError if quote() would not have written it so."""
    name = text
    if "%" in text:
        pieces = text.split("%")
        data = pieces[0].encode("utf-8")
        for piece in pieces[1:]:
            code = bytes.fromhex(piece[:2])
            if len(code) != 1:
                raise ValueError(f"{text!r}: two hex digits follow %")
            data += code + piece[2:].encode("utf-8")
        name = data.decode("utf-8")
    if quote(name) != text:
        raise ValueError(f"{text!r}: this name is written {quote(name)!r}")
    return name


def _check_subject(subject: str, place: str) -> None:
    if not subject.startswith("user:") and not subject.startswith("role:"):
        raise RowError(place, f"{subject!r}: a subject is user:NAME or role:NAME")
    _check_name(subject[5:], "a user" if subject.startswith("user:") else "a role", place)


def _check_name(text: str, what: str, place: str) -> None:
    if not text:
        raise RowError(place, f"{what} without a name")
    try:
        unquote(text)
    except UnicodeError:
        raise RowError(place, f"{text!r}: %XX has to be UTF-8") from None
    except ValueError as error:
        hint = str(error) if "written" in str(error) else f"{text!r}: write %25 for %"
        raise RowError(place, hint) from None


# Rules


def _parse_rule(row: Row, action: str, topic: str, condition: str, effect: str) -> None:
    place = row.place
    if effect != "allow" and effect != "deny":
        raise RowError(place, f"{effect!r}: the effect is allow or deny")
    row.allows = effect == "allow"
    row.mask = _mask(action, condition, place)
    row.pattern = topic
    row.levels = parse_pattern(topic, place)
    if row.mask & ADMIN_BITS:
        for level in row.levels:
            if level.kind == HOLE:
                raise RowError(place, f"{topic!r}: the resource of {action} has no placeholders")


def _mask(action: str, condition: str, place: str) -> int:
    actions: list[str] = list(MQTT_ACTIONS) if action == "*" else action.split("|")
    held = _meets(condition, place)
    mask = 0
    for name in actions:
        bits = BITS_OF.get(name)
        if bits is None:
            known = ", ".join(BITS_OF)
            raise RowError(place, f"{name!r}: an action is one of {known}, several with |, or *")
        if mask and (name in ADMIN_ACTIONS) != (mask & ADMIN_BITS != 0):
            raise RowError(
                place,
                f"{action!r}: a row is about topics or, with admin:..., about resources; use a row"
                " for each",
            )
        if mask & bits:
            raise RowError(place, f"{name!r} stands twice in {action!r}")
        if condition == "any":
            mask |= bits
            continue
        if name != PUBLISH and name != SUBSCRIBE:
            why = "it has no message"
            if name == RECEIVE:
                why = "the broker decides about it once for a topic, not for a message"
            raise RowError(
                place, f"{condition!r} cannot hold for {name}: {why}; use a row for each"
            )
        if name == SUBSCRIBE:
            if "retain" in condition:
                raise RowError(
                    place, f"{condition!r} cannot hold for subscribe, which has no retain flag"
                )
            for qos in range(3):
                if held & (1 << (qos * 2)):
                    mask |= 1 << (6 + qos)
        else:
            mask |= held
    return mask


def _meets(condition: str, place: str) -> int:
    """Which messages meet a condition, as bits of publish."""
    if condition == "any":
        return PUBLISH_BITS
    held = PUBLISH_BITS
    for term in condition.split("&"):
        met = 0
        for qos in range(3):
            for retain in range(2):
                if _meets_term(term, qos, retain, place):
                    met |= 1 << (qos * 2 + retain)
        held &= met
    if not held:
        raise RowError(place, f"{condition!r} holds for no message")
    return held


def _meets_term(term: str, qos: int, retain: int, place: str) -> bool:
    if term == "retain=yes":
        return retain == 1
    if term == "retain=no":
        return retain == 0
    if term in ("qos=0", "qos=1", "qos=2"):
        return qos == int(term[-1])
    if term in ("qos<=0", "qos<=1", "qos<=2"):
        return qos <= int(term[-1])
    raise RowError(
        place,
        f"{term!r}: a condition is any, or qos=N, qos<=N, retain=yes, retain=no joined by &",
    )


def bit_of(action: str, qos: int, retain: bool) -> int:
    """The bit of a question; a will is a publish."""
    if action == PUBLISH or action == "will":
        return 1 << (qos * 2 + (1 if retain else 0))
    if action == SUBSCRIBE:
        return 1 << (6 + qos)
    if action == RECEIVE:
        return RECEIVE_BIT
    if action == CONNECT:
        return CONNECT_BIT
    if action == ADMIN_READ:
        return ADMIN_READ_BIT
    if action == ADMIN_WRITE:
        return ADMIN_WRITE_BIT
    raise ValueError(f"{action!r} is no action")


# Topics


def parse_pattern(pattern: str, place: str = "") -> list[Level]:
    """The levels of a topic pattern.  Raises RowError."""
    problem = filter_problem(pattern)
    if problem:
        raise RowError(place, f"{pattern!r}: {problem}")
    if pattern.count("/") >= MOST_LEVELS:
        raise RowError(place, f"a topic with more than {MOST_LEVELS} levels")
    if pattern.startswith("$share/"):
        raise RowError(place, f"{pattern!r}: rules are about topics; write it without $share/NAME/")
    return [_parse_level(text, pattern, place) for text in pattern.split("/")]


def _parse_level(text: str, pattern: str, place: str) -> Level:
    if text == "+":
        return Level(PLUS, text)
    if text == "#":
        return Level(REST, text)
    if "%" not in text:
        return Level(NAME, text)
    parts: list[Part] = []
    literal = ""
    pos = 0
    while pos < len(text):
        if text[pos] != "%":
            literal += text[pos]
            pos += 1
            continue
        after = text[pos + 1 : pos + 2]
        escaped = _ESCAPED_IN_TOPICS.get(text[pos + 1 : pos + 3])
        part: Part | None = None
        if after == "%":
            literal += "%"
            pos += 2
        elif escaped is not None:
            literal += escaped
            pos += 3
        elif after == "u":
            part = Part(USER, "%u")
        elif after == "c":
            part = Part(CLIENT, "%c")
        elif after == "t":
            part = Part(TENANT, "%t")
        elif after == "{" and "}" in text[pos:]:
            name = text[pos + 2 : text.index("}", pos)]
            if not name or "%" in name or "{" in name:
                raise RowError(place, f"{pattern!r}: %{{{name}}} names no attribute")
            part = Part(COMMON_NAME if name == "cn" else ATTRIBUTE, name)
            pos += len(name) + 1
        else:
            raise RowError(
                place,
                f"{pattern!r}: %{after} is no placeholder; there are %u %c %t %{{cn}} "
                "%{ATTRIBUTE}, and %% for a percent sign",
            )
        if part is not None:
            pos += 2
            if literal:
                parts.append(Part(TEXT, literal))
                literal = ""
            parts.append(part)
    if not parts:
        return Level(NAME, literal)
    if literal:
        parts.append(Part(TEXT, literal))
    level = Level(HOLE, text)
    level.parts = parts
    return level
