"""Mosquitto's acl_file and password_file, as rows of a policy and users with their hashes.

How Mosquitto 2.0 decides, found out by asking it (`tests/interop/acl_cases.py`):

    topic ...    before the first `user`: for clients without a user name, and for them alone;
                 after it: for that user, whatever comes between its sections
    pattern ...  for everybody, wherever it stands; %c is the client id, %u the user name
    read         a message may be sent to the client; asked for each message
    write        the client may publish
    deny         neither
    subscribe    is never refused: who may not read, gets nothing

For one client there are two lists: the topics of its section, then the patterns.  In each, `deny`
comes first, wherever it stands in the file.  The first line of a list that fits decides, and the
patterns are not asked about what the section has decided.  So there is one thing that depends on
order: what a section allows is allowed, though a pattern denies it.

Casbin's rows have no order, and deny wins.  Everything is a row of its own, but for a `pattern
deny` that meets topics which a section allows.  Where no pattern allows anything that it denies, it
says nothing, and is left out.  Else it is refused, with both lines: it cannot be said in rows.

What mhub does differently on purpose, and warns of: a user name that nobody has checked is no user;
a client id or user name with a slash fits no placeholder.
"""

from pathlib import Path
from typing import Final

from mhub.access.policy import PolicyError
from mhub.access.rows import (
    ANONYMOUS,
    EVERYONE,
    HOLE,
    NAME,
    PLUS,
    REST,
    TEXT,
    Level,
    Row,
    RowError,
    parse_row,
    user_subject,
)
from mhub.auth import hashes
from mhub.wire.topics import filter_problem

READ: Final = "read"
WRITE: Final = "write"
READWRITE: Final = "readwrite"
DENY: Final = "deny"

ACTIONS: Final = {
    READ: "receive",
    WRITE: "publish",
    READWRITE: "publish|receive",
    DENY: "publish|receive",
}

_BLANKS: Final = " \t\n\v\f\r"
_ESCAPES: Final = {char: f"%{ord(char):02X}" for char in '()[],"'}


class Rule:
    """A line of an acl_file."""

    def __init__(self, place: str, subject: str, access: str, topic: str, is_pattern: bool) -> None:
        """`topic` as a row writes it.  Raises RowError."""
        self.place = place
        self.subject = subject
        self.access = access
        self.is_pattern = is_pattern
        effect = "deny" if access == DENY else "allow"
        fields = ("p", subject, "*", ACTIONS[access], topic, "any", effect)
        self.row = parse_row(fields, place)
        self.levels = self.row.levels


class Imported:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.users: dict[str, str] = {}  # name -> hash
        self.warnings: list[str] = []


def import_mosquitto(
    acl: str, acl_place: str, passwords: str | None = None, passwords_place: str = ""
) -> Imported:
    """Both files, given as their contents.  PolicyError names all lines that are refused."""
    errors: list[RowError] = []
    imported = Imported()
    try:
        imported = import_acl(acl, acl_place)
    except PolicyError as error:
        errors += error.errors
    if passwords is not None:
        try:
            imported.users = import_passwords(passwords, passwords_place)
        except PolicyError as error:
            errors += error.errors
    if errors:
        raise PolicyError(errors)
    _check_users(imported, passwords is not None)
    return imported


def read_files(acl: str, passwords: str = "") -> Imported:
    """The same from the names of files.  PolicyError, also for a file that cannot be read."""
    errors: list[RowError] = []
    texts = [_read_file(path, errors) for path in (acl, passwords) if path]
    if errors:
        raise PolicyError(errors)
    return import_mosquitto(texts[0], acl, texts[1] if passwords else None, passwords)


def _read_file(path: str, errors: list[RowError]) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        errors.append(RowError(path, f"cannot be read: {error.strerror}"))
    except UnicodeDecodeError as error:
        errors.append(RowError(path, f"is not UTF-8: see byte {error.start}"))
    return ""


# Rules


def import_acl(text: str, place: str) -> Imported:
    """The rows of an acl_file.  PolicyError names all lines that are refused."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(line, f"{place}:{number}")
    imported = Imported()
    imported.warnings = reader.warnings
    rows = [
        parse_row(("p", EVERYONE, "*", *rule, "any", "allow"), place)
        for rule in (("connect", "#"), ("subscribe", "#"), ("subscribe", "$SYS/#"))
    ]
    for rule in reader.rules:
        if rule.is_pattern and rule.access == DENY and not _is_needed(rule, reader):
            continue
        rows.append(rule.row)
    if reader.errors:
        raise PolicyError(reader.errors)
    imported.rows = list({row.id: row for row in rows}.values())
    return imported


class _Reader:
    """Lines, read as Mosquitto does: words are separated by spaces, and by nothing else."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.errors: list[RowError] = []
        self.warnings: list[str] = []
        self._subject = ANONYMOUS
        self._placeholders_at = ""

    def read(self, line: str, place: str) -> None:
        line = line.rstrip(_BLANKS)
        if not line or line.startswith("#"):
            return
        try:
            self._read(line.lstrip(" "), place)
        except RowError as error:
            self.errors.append(error)

    def _read(self, line: str, place: str) -> None:
        word, _, rest = line.partition(" ")
        rest = rest.strip(" ")
        if word == "user":
            if not rest:
                raise RowError(place, "user without a name")
            self._subject = user_subject(rest)
        elif word in ("topic", "pattern"):
            access, topic = self._access(word, rest, place)
            self._add(word == "pattern", access, topic, place)
        elif "\t" in line or line.startswith("#"):
            raise RowError(
                place,
                "Mosquitto 2.0 does not start with this line: it takes spaces, not tabs, and a"
                " comment begins at the start of a line",
            )
        else:
            raise RowError(place, f'expected user, topic or pattern, found "{word}"')

    def _access(self, word: str, rest: str, place: str) -> tuple[str, str]:
        """Access and topic; what stands alone is a topic, whatever it is."""
        access, _, topic = rest.partition(" ")
        topic = topic.lstrip(" ")
        if not rest:
            raise RowError(place, f"{word} without a topic")
        if not topic:
            if access in ACTIONS:
                self.warnings.append(
                    f'{place}: this is a rule about the topic "{access}", as in Mosquitto; a topic'
                    " may be missing"
                )
            return READWRITE, access
        if access not in ACTIONS:
            raise RowError(
                place,
                f'"{access}" is none of read, write, readwrite, deny, which a topic with spaces'
                " has to have in front of it",
            )
        return access, topic

    def _add(self, is_pattern: bool, access: str, topic: str, place: str) -> None:
        problem = filter_problem(topic)
        if problem:
            raise RowError(place, f"{topic!r}: {problem}")
        if "\t" in topic:
            raise RowError(
                place, f"{topic!r}: a topic with a tab; Mosquitto separates words by spaces only"
            )
        if topic.startswith("$share/"):
            self.warnings.append(f"{place}: left out, no message has such a topic")
            return
        subject = EVERYONE if is_pattern else self._subject
        self.rules.append(Rule(place, subject, access, quote_topic(topic, is_pattern), is_pattern))
        self._warn(is_pattern, topic, place)

    def _warn(self, is_pattern: bool, topic: str, place: str) -> None:
        if topic.startswith("$") and not topic.startswith("$SYS/"):
            self.warnings.append(f"{place}: in mhub there are no messages below {topic!r}")
        if is_pattern and not self._placeholders_at and ("%c" in topic or "%u" in topic):
            self._placeholders_at = place
            self.warnings.append(
                f"{place}: a client id or user name with a slash fits no placeholder in mhub"
            )


def quote_topic(topic: str, has_placeholders: bool) -> str:
    """A topic of an acl_file as a row writes it; only in patterns, %c and %u mean something."""
    written = ""
    for index, char in enumerate(topic):
        if char == "%":
            is_hole = has_placeholders and topic[index + 1 : index + 2] in ("c", "u")
            written += "%" if is_hole else "%%"
        else:
            written += _ESCAPES.get(char, char)
    if written.startswith(" "):
        written = "%20" + written[1:]
    if written.endswith(" "):
        written = written[:-1] + "%20"
    return written


def _is_needed(denial: Rule, reader: _Reader) -> bool:
    """Whether a `pattern deny` becomes a row; what it would change by that is an error."""
    met = [
        rule
        for rule in reader.rules
        if not rule.is_pattern and rule.access != DENY and overlap(denial.levels, rule.levels)
    ]
    if not met:
        return True
    if not any(
        rule.is_pattern and rule.access != DENY and overlap(denial.levels, rule.levels)
        for rule in reader.rules
    ):
        reader.warnings.append(f"{denial.place}: left out, it denies nothing that a pattern allows")
        return False
    reader.errors.append(
        RowError(
            denial.place,
            f"this pattern denies topics that {met[0].place} allows to {met[0].subject}. In"
            " Mosquitto the line of the user is stronger, in mhub deny is: make the two apart",
        )
    )
    return False


def overlap(one: list[Level], other: list[Level], at: int = 0) -> bool:
    """Whether some topic fits both patterns; of placeholders, any value is expected."""
    ends = (at == len(one), at == len(other))
    if ends[0] or ends[1]:
        rest = other if ends[0] else one
        # "a/#" fits "a", too.
        return all(ends) or (len(rest) == at + 1 and rest[at].kind == REST)
    a, b = one[at], other[at]
    if at == 0 and (_is_reserved(a) != _is_reserved(b)):
        return False  # neither a leading wildcard nor a placeholder means topics with "$"
    if a.kind == REST or b.kind == REST:
        return True
    return _levels_overlap(a, b) and overlap(one, other, at + 1)


def _is_reserved(level: Level) -> bool:
    return level.kind in (NAME, HOLE) and level.text.startswith("$")


def _levels_overlap(a: Level, b: Level) -> bool:
    if a.kind == PLUS or b.kind == PLUS:
        return True
    if a.kind == HOLE and b.kind == HOLE:
        return True
    if a.kind == NAME and b.kind == NAME:
        return a.text == b.text
    hole, name = (a, b.text) if a.kind == HOLE else (b, a.text)
    first, last = hole.parts[0], hole.parts[-1]
    head = first.text if first.kind == TEXT else ""
    tail = last.text if last.kind == TEXT else ""
    return len(name) > len(head) + len(tail) and name.startswith(head) and name.endswith(tail)


# Users


def import_passwords(text: str, place: str) -> dict[str, str]:
    """The hashes of a password_file, by user.  PolicyError names all lines that are refused."""
    users: dict[str, str] = {}
    errors: list[RowError] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip(_BLANKS)
        if not line or line.startswith("#"):
            continue
        try:
            name, found = _password(line, f"{place}:{number}")
            if name in users:
                raise RowError(f"{place}:{number}", f"there is a user {name!r} already")
            users[name] = found
        except RowError as error:
            errors.append(error)
    if errors:
        raise PolicyError(errors)
    return users


def _password(line: str, place: str) -> tuple[str, str]:
    name, colon, found = line.partition(":")
    name = name.strip(_BLANKS)
    if not colon or not name:
        raise RowError(place, "expected NAME:HASH, as mosquitto_passwd writes it")
    try:
        if found.startswith(("$6$", "$7$")):
            hashes.check_form(found)
            return name, found
    except hashes.HashError:
        pass
    # Not a part of it is shown: it may be the password.
    raise RowError(
        place,
        f"the password of {name!r} is no hash of mosquitto_passwd ($6$ or $7$); if the file has"
        " passwords in plain text, run mosquitto_passwd -U on a copy of it",
    )


def _check_users(imported: Imported, has_passwords: bool) -> None:
    """Warn of rules that hold for nobody."""
    named = {row.subject for row in imported.rows if row.subject.startswith("user:")}
    if not named:
        return
    if not has_passwords:
        imported.warnings.append(
            "the rules of users hold for users that mhub has authenticated; Mosquitto without a"
            " password_file believes any user name"
        )
        return
    without = sorted(named - {user_subject(name) for name in imported.users})
    if without:
        imported.warnings.append(f"there are rules, but no password, for {', '.join(without)}")
