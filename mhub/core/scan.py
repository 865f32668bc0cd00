"""Searches through all clients, subscriptions, topics or retained messages, for lists of them.

A page of a list is "the first N behind this one", by a value and a name: whatever comes and goes
between two pages, what stays and keeps its value is on exactly one of them, and the last page
costs no more than the first.  For each page all of them are looked at, in the order of their slots
(`mhub.core.slots`), and the first ones kept.

    scan.step(250)      looks at so many; False: that was all
    scan.first()        then: the names, in order

A step of 250 takes some 30 us in the compiled build.  The caller sees to it that others have their
turn between two steps.  What a scan gives are names and no objects, as these may be gone before
they are looked at.
"""

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Final

from mhub.core.session import Session
from mhub.core.slots import NOWHERE
from mhub.wire.topics import has_wildcard, matches, reserved

if TYPE_CHECKING:
    from mhub.core.delivery import Subscription
    from mhub.core.hub import Hub

# What clients are sorted by, as indices of CLIENT_SORTS; the first is the name itself.
CLIENT_SORTS: Final = (
    "client_id",
    "connected_at",
    "queued",
    "queued_bytes",
    "inflight",
    "subscriptions",
    "messages_in",
    "messages_out",
    "bytes_in",
    "bytes_out",
    "messages_in_per_s",
    "messages_out_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
)
TOPIC_SORTS: Final = ("topic", "messages", "bytes", "messages_per_s", "bytes_per_s")

ANY: Final = -1
"""Of a choice between no (0) and yes (1): both."""

SEPARATOR: Final = "\0"
"""Between the parts of a name of several: no text of MQTT has it, and it is before all others."""

REMEMBERED: Final = 10_000
"""Filters for which it is remembered whether they match a topic."""


class Glob:
    """A pattern with * and ? and [...] for names; most have no more than some *."""

    def __init__(self, pattern: str) -> None:
        self._is_plain = "?" not in pattern and "[" not in pattern
        pieces = pattern.split("*")
        self._is_exact = len(pieces) == 1
        self._first = pieces[0]
        self._last = pieces[-1]
        self._middle = [piece for piece in pieces[1:-1] if piece]
        self._part = ""  # of *PART*, which most are
        if self._is_plain and len(self._middle) == 1 and not self._first and not self._last:
            self._part = self._middle[0]
        self._regex = None if self._is_plain else re.compile(translate(pattern))

    def fits(self, name: str) -> bool:
        if self._part:
            return self._part in name
        if self._regex is not None:
            return self._regex.match(name) is not None
        if self._is_exact:
            return name == self._first
        first = self._first
        last = self._last
        if len(name) < len(first) + len(last) or not name.startswith(first):
            return False
        if not name.endswith(last):
            return False
        at = len(first)
        end = len(name) - len(last)
        for piece in self._middle:
            found = name.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True


class Matcher:
    """A topic filter, for very many topics."""

    def __init__(self, topic_filter: str) -> None:
        self._filter = topic_filter
        self._is_exact = not has_wildcard(topic_filter)
        self._hides = topic_filter[:1] in ("+", "#")  # topics with $ [MQTT-4.7.2-1]
        self._below = ""  # of a filter whose only wildcard is a # at the end: what is before it
        self._regex = None
        if not self._is_exact:
            if topic_filter.endswith("#") and not has_wildcard(topic_filter[:-1]):
                self._below = topic_filter[:-1]
            else:
                self._regex = re.compile(_pattern(topic_filter), re.DOTALL)

    def fits(self, topic: str) -> bool:
        if self._is_exact:
            return topic == self._filter
        if self._hides and topic.startswith("$"):
            return False
        if self._regex is not None:
            return self._regex.match(topic) is not None
        below = self._below
        return topic.startswith(below) or topic == below[:-1]


def _pattern(topic_filter: str) -> str:
    """A filter as a regular expression."""
    levels = topic_filter.split("/")
    rest = levels[-1] == "#"
    if rest:
        levels.pop()
    parts = ["[^/]*" if level == "+" else re.escape(level) for level in levels]
    return "/".join(parts) + ("(/.*)?" if rest else "") + r"\Z"


SORTED_AT_ONCE: Final = 200
"""So many are added to those that are in order, then all are sorted, which takes 0.2 ms or so: the
first thousand at once would take several."""

# Where a name stands that is looked at.
PASSED: Final = 0  # on an earlier page
HERE: Final = 1  # perhaps on this one
BEHIND: Final = 2  # on a later one


class Selection:
    """Keeps the first ones of those that it is offered, by value and name, behind a cursor."""

    def __init__(self, limit: int, descending: bool, by_name: bool) -> None:
        self._limit = limit
        self._step = min(limit, SORTED_AT_ONCE)
        self._sort_at = self._step  # so many are sorted, and those beyond the limit dropped
        self._by_name = by_name
        self._reverse = descending and by_name  # else values are negated, and names ascend
        self._negate = descending and not by_name
        self._found: list[tuple[float, str]] = []
        self._has_after = False
        self._after_rank = 0.0
        self._after = ""
        self._after_first = ""
        self._is_full = False  # the last of the first ones so far is known: none behind it is kept
        self._last_rank = 0.0
        self._last = ""
        self._last_first = ""
        self.fit = 0  # how many came behind the cursor

    def begin_after(self, value: float, name: str) -> None:
        self._has_after = True
        self._after_rank = -value if self._negate else value
        self._after = name
        self._after_first = name.split(SEPARATOR)[0]

    def is_passed(self, value: float, name: str) -> bool:
        """Whether it was on an earlier page."""
        return self._place(value, name) == PASSED

    def offer(self, value: float, name: str) -> None:
        """One that is not passed, and wanted."""
        if self._place(value, name) == BEHIND:
            self.fit += 1
        else:
            self.keep(value, name)

    def _place(self, value: float, name: str) -> int:
        return self.place_of(name) if self._by_name else self.place_of_value(value, name)

    # The same for scans, which leave out what they need not look at.

    def place_of_value(self, value: float, name: str) -> int:
        """By value, then name."""
        rank = -value if self._negate else value
        if self._has_after and rank <= self._after_rank:
            if rank < self._after_rank or name <= self._after:
                return PASSED
        if self._is_full and rank >= self._last_rank:
            if rank > self._last_rank or name > self._last:
                return BEHIND
        return HERE

    def place_of(self, name: str) -> int:
        """By name."""
        if self._has_after and (name >= self._after if self._reverse else name <= self._after):
            return PASSED
        if self._is_full and (name < self._last if self._reverse else name > self._last):
            return BEHIND
        return HERE

    def place_of_first(self, first: str) -> int:
        """By the first part of a name, as far as that tells: others are compared as a whole.

        As the separator is before all characters, a part that is less than another one is less
        than the whole of that, and than all that begins with it.
        """
        if self._has_after and first != self._after_first:
            if first > self._after if self._reverse else first < self._after:
                return PASSED
        if self._is_full and first != self._last_first:
            if first < self._last if self._reverse else first > self._last:
                return BEHIND
        return HERE

    def keep(self, value: float, name: str) -> None:
        """One that is HERE, and wanted."""
        self.fit += 1
        self._found.append((-value if self._negate else value, name))
        if len(self._found) >= self._sort_at:
            self._cut()

    def _cut(self) -> None:
        found = self._found
        found.sort(reverse=self._reverse)
        if len(found) >= self._limit:
            del found[self._limit :]
            self._last_rank, self._last = found[-1]
            self._last_first = self._last.split(SEPARATOR)[0]
            self._is_full = True
        self._sort_at = len(found) + self._step

    def first(self) -> list[tuple[float, str]]:
        """Values and names; each once, also if it went and came while it was looked for."""
        self._cut()
        sign = -1.0 if self._negate else 1.0
        return [(rank * sign, name) for rank, name in dict.fromkeys(self._found)]


class ClientScan:
    def __init__(self, hub: "Hub", sort: int, descending: bool, limit: int) -> None:
        self._items = hub.slots.items
        self._names = hub.slots.names
        self._index = 0
        self._sort = sort
        self.selection = Selection(limit, descending, sort == 0)
        self.offset_s = 0.0  # what turns the hub's clock into the time of day, for connected_at
        self.glob: Glob | None = None
        self.listener = ""
        self.user = ""  # proved or claimed
        self.connected = ANY

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._items))
        self._index = end
        names = self._names[start:end]
        by_name = self._sort == 0
        if by_name and self.connected == ANY and not self.listener and not self.user:
            self._step_names(names)
        else:
            # First who fits by name: to look at a session takes longer.
            glob = self.glob
            for index, session in enumerate(self._items[start:end]):
                name = names[index]
                if glob is None or glob.fits(name):
                    self._look_at(session, name, by_name)
        return end < len(self._items)

    def _step_names(self, names: list[str]) -> None:
        selection = self.selection
        glob = self.glob
        for name in names:
            if not name:
                continue
            place = selection.place_of(name)
            if place == PASSED or (glob is not None and not glob.fits(name)):
                continue
            if place == BEHIND:
                selection.fit += 1
            else:
                selection.keep(0.0, name)

    def _look_at(self, session: Session | None, name: str, by_name: bool) -> None:
        if session is None:
            return
        selection = self.selection
        value = 0.0
        if by_name:
            place = selection.place_of(name)
        else:
            value = client_value(session, self._sort, self.offset_s)
            place = selection.place_of_value(value, name)
        if place == PASSED or not self._fits(session):
            return
        if place == BEHIND:
            selection.fit += 1
        else:
            selection.keep(value, name)

    def _fits(self, session: Session) -> bool:
        if self.connected != ANY and (session.connection is not None) != (self.connected == 1):
            return False
        if self.listener and session.principal.listener != self.listener:
            return False
        user = self.user
        return not user or user in (session.principal.user, session.principal.claimed_user)


def client_value(session: Session, sort: int, offset_s: float) -> float:
    """What a session is sorted by; of one that is not connected, what a connection has is 0."""
    if sort == 0:
        return 0.0
    if sort == 2:
        return float(session.queued())
    if sort == 3:
        queue = session.queue
        return 0.0 if queue is None else float(queue.size_bytes)
    if sort == 4:
        return float(len(session.inflight.deliveries))
    if sort == 5:
        return float(len(session.subscriptions))
    connection = session.connection
    if connection is None:
        return 0.0
    if sort == 1:
        return since(connection.connected_at, offset_s)
    if sort == 6:
        return float(connection.messages_in)
    if sort == 7:
        return float(connection.messages_out)
    if sort == 8:
        return float(connection.bytes_in)
    if sort == 9:
        return float(connection.bytes_out)
    rates = connection.rates
    if rates is None:
        return 0.0
    if sort == 10:
        return rates.messages_in
    if sort == 11:
        return rates.messages_out
    if sort == 12:
        return rates.bytes_in
    return rates.bytes_out


def since(at: float, offset_s: float) -> float:
    """A time of the hub's clock as time of day, in whole milliseconds."""
    return float(int((at + offset_s) * 1000.0)) / 1000.0


class SubscriptionScan:
    """Names of three parts: filter, client id, group; or client id, filter, group."""

    def __init__(self, hub: "Hub", by_client: bool, descending: bool, limit: int) -> None:
        self._items = hub.router.slots.items
        self._filters = hub.router.slots.names
        self._owners = hub.router.owners
        self._index = 0
        self._by_client = by_client
        self.selection = Selection(limit, descending, True)
        self.glob: Glob | None = None  # for the filter
        self.client_id = ""
        self.group = ""
        self.shared = ANY
        self.topic: TopicMatch | None = None

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._items))
        self._index = end
        firsts = (self._owners if self._by_client else self._filters)[start:end]
        selection = self.selection
        for index, first in enumerate(firsts):
            place = selection.place_of_first(first)
            if place == PASSED or not self._fits(start + index):
                continue
            if place == BEHIND:
                selection.fit += 1
            else:
                self._look_at(self._items[start + index])
        return end < len(self._items)

    def _look_at(self, each: "Subscription | None") -> None:
        if each is None or each.session.hub_slot == NOWHERE:
            return
        client_id = each.session.client_id
        if self._by_client:
            name = client_id + SEPARATOR + each.topic_filter + SEPARATOR + each.share
        else:
            name = each.topic_filter + SEPARATOR + client_id + SEPARATOR + each.share
        selection = self.selection
        place = selection.place_of(name)
        if place == HERE:
            selection.keep(0.0, name)
        elif place == BEHIND:
            selection.fit += 1

    def _fits(self, slot: int) -> bool:
        topic_filter = self._filters[slot]
        if not topic_filter:
            return False
        if self.client_id and self._owners[slot] != self.client_id:
            return False
        if self.glob is not None and not self.glob.fits(topic_filter):
            return False
        if self.topic is not None and not self.topic.fits(topic_filter):
            return False
        if self.group or self.shared != ANY:
            each = self._items[slot]
            if each is None or (self.group and each.share != self.group):
                return False
            if self.shared != ANY and (each.share != "") != (self.shared == 1):
                return False
        return True


class TopicMatch:
    """A topic, for very many filters."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._known: dict[str, bool] = {}

    def fits(self, topic_filter: str) -> bool:
        topic = self._topic
        plus = topic_filter.find("+")
        rest = topic_filter.find("#")
        wild = rest if plus < 0 or 0 <= rest < plus else plus
        if wild < 0:
            return topic_filter == topic
        # Most are told apart by what is before the wildcard; "a/#" matches "a".
        if not topic.startswith(topic_filter[: wild - 1 if wild else 0]):
            return False
        known = self._known.get(topic_filter)
        if known is None:
            known = matches(topic_filter, topic)
            if len(self._known) < REMEMBERED:
                self._known[topic_filter] = known
        return known


class TopicScan:
    """Topics that are counted, by one of TOPIC_SORTS but the first."""

    def __init__(self, hub: "Hub", sort: int, descending: bool, limit: int) -> None:
        self._items = hub.router.topics.slots.items
        self._index = 0
        self._sort = sort
        self.selection = Selection(limit, descending, False)
        self.with_reserved = False

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._items))
        self._index = end
        selection = self.selection
        sort = self._sort
        for each in self._items[start:end]:
            if each is None or not each.messages:
                continue
            if sort == 1:
                value = float(each.messages)
            elif sort == 2:
                value = float(each.bytes)
            elif sort == 3:
                value = each.messages_per_s
            else:
                value = each.bytes_per_s
            if selection.place_of_value(value, each.topic) == HERE:
                if self.with_reserved or not reserved(each.topic):
                    selection.keep(value, each.topic)
        return end < len(self._items)


class RetainedScan:
    """By topic; also those that have expired and are not swept yet."""

    def __init__(self, hub: "Hub", descending: bool, limit: int) -> None:
        self._topics = hub.retained.slots.names
        self._index = 0
        self.selection = Selection(limit, descending, True)
        self.with_reserved = False
        self.matcher: Matcher | None = None
        self.glob: Glob | None = None

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._topics))
        self._index = end
        selection = self.selection
        for topic in self._topics[start:end]:
            if not topic:
                continue
            place = selection.place_of(topic)
            if place == PASSED or not self._fits(topic):
                continue
            if place == BEHIND:
                selection.fit += 1
            else:
                selection.keep(0.0, topic)
        return end < len(self._topics)

    def _fits(self, topic: str) -> bool:
        if not self.with_reserved and reserved(topic):
            return False
        if self.matcher is not None and not self.matcher.fits(topic):
            return False
        return self.glob is None or self.glob.fits(topic)
