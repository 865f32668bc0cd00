"""Users in a database: queries that the operator writes.  PostgreSQL and MySQL have modules of
their own, which say how to connect.

    query             the user: one row, whose columns are the fields that mhub.auth.external names;
                      a single column is the hash of the password.  No row: not ours
    superuser_query   a number or a truth: whether it is a superuser
    acl_query         what the user may do, as grants.  With `acc` among its parameters it is asked
                      three times, as mosquitto-go-auth does: what may be read (1), written (2),
                      subscribed to (4); a row is a topic.  Without, a row is topic, action and, if
                      it has a third column, effect

The last two are asked when the password was right.  All are asked on one connection, in a row.
"""

from dataclasses import dataclass
from typing import Any, Final

from twisted.internet.defer import Deferred

from mhub.auth.backend import plain
from mhub.auth.contract import Answer, Context, not_mine
from mhub.auth.external import ExternalSettings, ExternalSource, Malformed, missing_facts
from mhub.auth.facts import NAMES, UnusableClaim, facts_of
from mhub.auth.grants import MAX_GRANTS, escaped, grant
from mhub.auth.sql_pool import Pool
from mhub.auth.sql_text import Query
from mhub.config.kinds import Boolean, Choice, FilePath, Place, Secret, Text
from mhub.config.schema import setting
from mhub.config.servers import check_client_tls, check_password
from mhub.core.authentication import Claim

ACC: Final = "acc"
ACCESS: Final = (("1", "receive"), ("2", "publish"), ("4", "subscribe"))
"""MOSQ_ACL_READ, _WRITE and _SUBSCRIBE.  Nobody is ever asked for READWRITE (3)."""


@dataclass(frozen=True, repr=False)  # no repr: it would show the password
class SqlSettings(ExternalSettings):
    query: str = setting(
        Text(empty=False),
        "",
        "The query for a user; its parameters are `:username`, `:client_id` and others.",
        required=True,
    )
    superuser_query: str = setting(
        Text(), "", "The query that tells whether the user is a superuser.", shown="none"
    )
    acl_query: str = setting(
        Text(), "", "The query for what the user may do, besides its roles.", shown="none"
    )
    verify: str = setting(
        Choice("hash", "query"),
        "hash",
        "Who checks the password: mhub, against `password_hash`; or the query, which has it as"
        " `:password` and gives a row if it is right.",
    )
    host: str = setting(
        Text(empty=False),
        "127.0.0.1",
        "The server: a name, an address, or the path of a Unix socket (PostgreSQL: of its folder).",
    )
    database: str = setting(Text(empty=False), "", "The name of the database.", required=True)
    username: str = setting(Text(empty=False), "", "The user to log in as.", required=True)
    password: str = setting(Secret(), "", "Its password, if the server wants one.", shown="none")
    password_file: str = setting(
        FilePath(),
        "",
        "A file with the password, in the place of `password`; read when the broker starts.",
        shown="none",
    )
    tls: bool = setting(
        Boolean(), False, "Whether the connection is encrypted, and the server's name verified."
    )
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that the server's certificate must come from, in one PEM file.",
        shown="the system's",
    )
    certificate: str = setting(
        FilePath(), "", "The certificate to show to the server, as a PEM file.", shown="none"
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", shown="none"
    )


class Queries:
    """What is asked.  Raises ValueError, whose first argument is the key."""

    def __init__(self, settings: SqlSettings, dialect: str) -> None:
        by_query = settings.verify == "query"
        names = tuple(name for name in NAMES if by_query or name != "password")
        others = tuple(name for name in NAMES if name != "password")
        who = "client_id" if settings.identify_by == "client_id" else "username"
        self.user = _query("query", settings.query, dialect, names, (who,))
        self.superuser: Query | None = None
        if settings.superuser_query:
            sql = settings.superuser_query
            self.superuser = _query("superuser_query", sql, dialect, others, (who,))
        self.acl: Query | None = None
        if settings.acl_query:
            sql = settings.acl_query
            self.acl = _query("acl_query", sql, dialect, (*others, ACC), (who, ACC))
        for name in missing_facts(settings.identify_by, self.user.names):
            raise ValueError("query", f"needs :{name}, which says who the client is (identify_by)")
        for key, query in (("superuser_query", self.superuser), ("acl_query", self.acl)):
            if query is not None and who not in query.names:
                raise ValueError(key, f"needs :{who}: whose rights are they?")
        if by_query and "password" not in self.user.names:
            raise ValueError("query", 'needs :password, as verify = "query"')

    @property
    def facts(self) -> tuple[str, ...]:
        found = [each for each in (self.user, self.superuser, self.acl) if each is not None]
        names = {name for query in found for name in query.names}
        return tuple(sorted(names - {ACC, "password"}))


def _query(
    key: str, sql: str, dialect: str, names: tuple[str, ...], numbered: tuple[str, ...]
) -> Query:
    try:
        return Query(sql, dialect, names, numbered)
    except ValueError as problem:
        raise ValueError(key, str(problem)) from None


def check_sql(settings: SqlSettings, dialect: str, place: Place) -> None:
    try:
        Queries(settings, dialect)
    except ValueError as problem:
        key, text = problem.args
        place.at(key).wrong(text)
    if settings.password or settings.password_file:
        check_password(settings, place)
    check_client_tls(settings, place, is_on=settings.tls, on="tls = true")


class SqlSource(ExternalSource):
    def __init__(
        self, name: str, kind: str, settings: SqlSettings, context: Context, pool: Pool
    ) -> None:
        self.kind = kind
        super().__init__(name, settings, context)
        self._by_query = settings.verify == "query"
        self._queries = Queries(settings, kind)
        self._pool = pool
        self.facts = self._queries.facts

    def stop(self) -> "Deferred[None] | None":
        super().stop()
        return self._pool.stop()

    async def judge(self, claim: Claim) -> Answer:
        query = self._queries.user
        facts: dict[str, Any] = facts_of(claim, (*self.facts, *query.names))
        found = await self._ask(claim, lambda cursor: _user(cursor, query, facts))
        if found is None:
            return not_mine()
        answer = self.accept(claim, found) if self._by_query else await self.verify(claim, found)
        queries = self._queries
        if answer.identity is None or (queries.superuser is None and queries.acl is None):
            return answer
        rights = await self._ask(claim, lambda cursor: _rights(cursor, queries, facts))
        return self.accept(claim, _joined(found, rights))

    async def _ask(self, claim: Claim, work: Any) -> Any:
        """What `work` comes to with a cursor, in a thread."""
        refuses = self._pool.dbapi.DataError

        def answered(cursor: Any) -> Any:
            # These are answers: an error that a client can cause must not open the circuit.
            try:
                return work(cursor)
            except refuses as error:
                return UnusableClaim(f"{self.backend.name} refuses a value: {plain(str(error))}")
            except Malformed as problem:
                return problem

        found = await self.ask(claim, lambda: self._pool.run(answered))
        if isinstance(found, Exception):
            raise found
        return found


def _user(cursor: Any, query: Query, facts: dict[str, Any]) -> dict[str, Any] | None:
    cursor.execute(query.text, {name: facts[name] for name in query.names})
    rows = cursor.fetchmany(2)
    if not rows:
        return None
    if len(rows) > 1:
        raise Malformed("there is more than one row for this user")
    names = [column[0].lower() for column in cursor.description]
    if len(names) == 1:
        return {"password_hash": rows[0][0]}
    return dict(zip(names, rows[0], strict=True))


def _rights(cursor: Any, queries: Queries, facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if queries.superuser is not None:
        query = queries.superuser
        cursor.execute(query.text, {name: facts[name] for name in query.names})
        row = cursor.fetchone()
        found["superuser"] = row is not None and row[0]
    if queries.acl is not None:
        found["grants"] = _grants(cursor, queries.acl, facts)
    return found


def _grants(cursor: Any, query: Query, facts: dict[str, Any]) -> list[str]:
    grants: list[str] = []
    by_access = ACC in query.names
    for acc, action in ACCESS if by_access else (("", ""),):
        cursor.execute(query.text, {name: facts.get(name, acc) for name in query.names})
        for row in cursor.fetchmany(MAX_GRANTS + 1):
            if by_access:
                grants.append(grant(action, str(row[0])))
            else:
                if len(row) < 2:
                    raise Malformed("a row of acl_query has topic and action, or :acc is missing")
                effect = row[2] if len(row) > 2 else "allow"
                grants.append(f"{row[1]}, {escaped(str(row[0]))}, any, {effect}")
    return [line for line in grants if line]


def _joined(found: dict[str, Any], rights: dict[str, Any]) -> dict[str, Any]:
    """What the row says, and what the other queries say besides."""
    joined = dict(found)
    if rights.get("superuser"):
        joined["superuser"] = rights["superuser"]
    if rights.get("grants"):
        if found.get("grants"):
            raise Malformed("both the row and acl_query have grants")
        joined["grants"] = rights["grants"]
    return joined
