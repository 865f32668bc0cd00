"""Users in PostgreSQL and MariaDB, against real servers: one suite for both."""

from pathlib import Path
from types import ModuleType
from typing import Any

import bcrypt
from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.trial.unittest import SynchronousTestCase, TestCase

from mhub.auth import mysql, postgresql
from mhub.auth.contract import CANNOT_TELL, NO, NOT_MINE, YES, Answer
from mhub.auth.sql_text import Query
from tests.auth.external import HASH, ask, go_auth_hash, make_claim, make_context, problems
from tests.helpers.certificates import Authority
from tests.helpers.databases import DatabaseServer, MariaServer, PostgresServer, shared_database

QUERY = "select password_hash, roles, tenant, site from users where name = :username"


class SqlCase:
    """Mixed into a TestCase."""

    module: ModuleType
    server_class: type[DatabaseServer]
    grant_statements: tuple[str, ...] = ()

    def setUp(self) -> None:
        self.server = shared_database(self.server_class)
        self.prepare(self.server)
        self.context = make_context(reactor)
        self.source = self.make()

    def prepare(self, server: DatabaseServer) -> None:
        server.run(
            *self.grant_statements,
            "drop table if exists mhub_test.users",
            "create table mhub_test.users (name varchar(100), password_hash varchar(200),"
            " roles varchar(100), tenant varchar(100), site varchar(100), number int)",
            "insert into mhub_test.users values"
            f" ('alice', '{HASH}', 'device, reader', 'acme', 'hall-1', 7)",
        )

    def settings(self, server: DatabaseServer, **given: Any) -> dict[str, Any]:
        return {
            "port": server.port,
            "database": "mhub_test",
            "username": "mhub",
            "password": "mhub-test",
            "query": QUERY,
            "negative_cache_s": 0.0,
        } | given

    def make(self, **given: Any) -> Any:
        return self.make_at(self.server, **given)

    def make_at(self, server: DatabaseServer, **given: Any) -> Any:
        settings = self.module.Settings(**self.settings(server, **given))
        source = self.module.make("users", settings, self.context)
        self.addCleanup(source.stop)  # type: ignore[attr-defined]
        return source

    def ask(self, **claim: Any) -> "Deferred[Answer]":
        return ask(self.source, make_claim(**claim))


class PostgresCase(SqlCase):
    module = postgresql
    server_class = PostgresServer
    grant_statements = (
        "drop schema if exists mhub_test cascade",
        "create schema mhub_test",
        "do $$ begin if not exists (select from pg_roles where rolname = 'mhub') then"
        " create role mhub login password 'mhub-test'; end if; end $$",
        "grant usage on schema mhub_test to mhub",
        "alter default privileges in schema mhub_test grant all on tables to mhub",
        "alter role mhub set search_path = mhub_test",
    )

    def settings(self, server: DatabaseServer, **given: Any) -> dict[str, Any]:
        return super().settings(server, **({"database": "postgres"} | given))


class MariaCase(SqlCase):
    module = mysql
    server_class = MariaServer
    grant_statements = (
        "drop database if exists mhub_test",
        "create database mhub_test character set utf8mb4",
        "create or replace user mhub@'127.0.0.1' identified by 'mhub-test'",
        "grant all on mhub_test.* to mhub@'127.0.0.1'",
    )


class UserSuite:
    """Mixed in with one of the cases."""

    joined = ""  # "plain:" and the password, as this database joins them

    async def test_user(self: Any) -> None:
        answer = await self.ask()
        self.assertEqual(answer.outcome, YES, answer.text)
        identity = answer.identity
        self.assertEqual((identity.user, identity.method), ("alice", self.source.kind))
        self.assertEqual(identity.roles, ("device", "reader"))
        self.assertEqual(identity.tenant, "acme")
        self.assertEqual(identity.attributes, {"site": "hall-1"})

    async def test_wrong_password_and_unknown_user(self: Any) -> None:
        self.assertEqual((await self.ask(password="Secret")).outcome, NO)
        self.assertEqual((await self.ask(username="bob")).outcome, NOT_MINE)

    async def test_one_column_is_the_hash(self: Any) -> None:
        source = self.make(query="select password_hash from users where name = :username")
        self.assertEqual((await ask(source, make_claim())).outcome, YES)

    async def test_a_user_without_a_hash(self: Any) -> None:
        self.server.run("insert into mhub_test.users (name) values ('bob')")
        self.assertEqual((await self.ask(username="bob")).outcome, NOT_MINE)

    async def test_two_rows_are_no_user(self: Any) -> None:
        self.server.run("insert into mhub_test.users values ('alice', 'y', '', '', '', 1)")
        answer = await self.ask()
        self.assertEqual(answer.outcome, CANNOT_TELL)
        self.assertIn("more than one row", answer.text)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)

    async def test_parameters_are_bound(self: Any) -> None:
        """Nothing that a client sends is SQL."""
        for name in (
            "' or '1'='1",
            "alice' -- ",
            "\\' or 1=1 -- ",
            "\\",
            "';drop table users;--",
            "%(username)s",
            "%s%%",
            ":username",
            "alice\n",
            "\x01\x02\x7f",
            "Δ🙂'\"`",
            "x" * 65535,
        ):
            answer = await self.ask(username=name, client_id=name)
            expected = NOT_MINE if name.isprintable() else NO
            self.assertEqual(answer.outcome, expected, (name[:50], answer.text))
        self.assertEqual((await self.ask()).outcome, YES)

    async def test_quotes_and_signs_come_back_as_they_are(self: Any) -> None:
        source = self.make(
            query=f"select '{HASH}' as password_hash, :username as u, :client_id as c,"
            " '%s:username' as text from users where name = 'alice' and :username <> ''"
        )
        for name in ("a'b\"c\\d%e", "O'Neil", "\\'", "%", "🙂"):
            answer = await ask(source, make_claim(username=name, client_id=name + "'"))
            self.assertEqual(answer.outcome, YES, answer.text)
            self.assertEqual(
                answer.identity.attributes, {"u": name, "c": name + "'", "text": "%s:username"}
            )

    async def test_checked_by_the_query(self: Any) -> None:
        self.server.run("update mhub_test.users set password_hash = 'plain:secret'")
        source = self.make(
            verify="query",
            query="select roles, tenant from users where name = :username"
            f" and password_hash = {self.joined}",
        )
        self.assertEqual((await ask(source, make_claim())).outcome, YES)
        self.assertEqual((await ask(source, make_claim(password="x"))).outcome, NOT_MINE)
        for password in (b"\xff\xfe", b"a\0b"):
            self.assertEqual((await ask(source, make_claim(password=password))).outcome, NO)
        self.assertEqual(self.context.hub.stats.passwords_checked, 0)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)

    async def test_rules_of_its_own(self: Any) -> None:
        self.server.run(
            "create table mhub_test.rules (name varchar(100), topic varchar(100),"
            " action varchar(100), effect varchar(10))",
            "insert into mhub_test.rules values ('alice', 'a/%c/#', 'publish|subscribe', 'allow'),"
            " ('alice', 'a/50%, (x)', 'publish', 'deny'), ('bob', '#', '*', 'allow')",
        )
        source = self.make(
            acl_query="select topic, action, effect from rules where name = :username"
            " order by topic"
        )
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, YES, answer.text)
        self.assertEqual(
            set(answer.identity.grants),
            {
                "publish|subscribe, a/%c/#, any, allow",
                "publish, a/50%%%2C %28x%29, any, deny",
            },
        )
        self.server.run("update mhub_test.rules set topic = 'a/#/b' where effect = 'deny'")
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, CANNOT_TELL, "a deny must not be left out")

    async def test_a_query_that_fails_opens_the_circuit(self: Any) -> None:
        source = self.make(query="select nothing from nowhere where x = :username")
        for _ in range(6):
            answer = await ask(source, make_claim())
            self.assertEqual(answer.outcome, CANNOT_TELL)
        self.assertIn("does not answer", answer.text)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 5)

    async def test_wrong_login(self: Any) -> None:
        source = self.make(password="wrong")
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, CANNOT_TELL)
        self.assertIn("mhub", answer.text)
        self.assertNotIn("wrong", answer.text)

    async def test_many_at_once(self: Any) -> None:
        answers = await DeferredList([self.ask(client_id=f"c{n}") for n in range(100)])
        self.assertEqual({answer.outcome for _, answer in answers}, {YES})
        self.assertLessEqual(len(self.source._pool.connections), 8)


class GoAuthSuite:
    """The tables and queries of mosquitto-go-auth, as its own tests have them."""

    tables: tuple[str, ...] = ()
    queries: dict[str, str] = {}

    async def test_layout(self: Any) -> None:
        self.server.run(
            *self.tables,
            "insert into mhub_test.test_user (id, username, password_hash, is_admin)"
            f" values (1, 'test', '{go_auth_hash('testpw')}', true),"
            f" (2, 'plain', '{bcrypt.hashpw(b'x', bcrypt.gensalt(4)).decode()}', false)",
            "insert into mhub_test.test_acl (test_user_id, topic, rw) values"
            " (1, 'test/topic/1', 1), (1, 'test/topic/+', 4), (1, 'test/%u', 2),"
            " (1, 'test/%c', 3), (1, 'broken+', 3)",
        )
        source = self.make(**self.queries)
        answer = await ask(source, make_claim("test", "testpw"))
        self.assertEqual(answer.outcome, YES, answer.text)
        self.assertEqual(answer.identity.roles, ("admin",))
        self.assertEqual(
            set(answer.identity.grants),
            {
                "receive, test/topic/1, any, allow",
                "receive, test/%c, any, allow",
                "publish, test/%u, any, allow",
                "publish, test/%c, any, allow",
                "subscribe, test/topic/+, any, allow",
                "subscribe, test/%c, any, allow",
            },
        )
        answer = await ask(source, make_claim("plain", "x"))
        self.assertEqual((answer.identity.roles, answer.identity.grants), ((), ()))
        self.assertEqual((await ask(source, make_claim("test", "wrong"))).outcome, NO)
        self.assertEqual((await ask(source, make_claim("nobody", "x"))).outcome, NOT_MINE)


class PostgresTests(PostgresCase, UserSuite, GoAuthSuite, TestCase):
    joined = "'plain:' || :password"
    tables = (
        "create table mhub_test.test_user (id bigserial primary key, username character varying"
        " (100) not null, password_hash character varying (200) not null, is_admin boolean not"
        " null)",
        "create table mhub_test.test_acl (id bigserial primary key, test_user_id bigint not null"
        " references mhub_test.test_user on delete cascade, topic character varying (200) not null,"
        " rw int not null)",
    )
    queries = {
        "query": "SELECT password_hash FROM test_user WHERE username = $1 limit 1",
        "superuser_query": "select count(*) from test_user where username = $1 and is_admin = true",
        "acl_query": "SELECT test_acl.topic FROM test_acl, test_user WHERE test_user.username = $1"
        " AND test_acl.test_user_id = test_user.id AND (rw = $2 or rw = 3)",
    }

    async def test_a_parameter_that_is_not_used_in_earnest(self) -> None:
        """As in the example of mosquitto-go-auth for ChirpStack: `$2 = $2`."""
        source = self.make(
            query="select password_hash from users where name = $1",
            acl_query="select distinct 'application/' || number || '/#' from users"
            " where name = $1 and $2 = $2",
        )
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, YES, answer.text)
        assert answer.identity is not None
        self.assertEqual(len(answer.identity.grants), 3)
        self.assertIn("publish, application/7/#, any, allow", answer.identity.grants)

    async def test_a_value_that_is_not_for_its_column_is_a_no(self) -> None:
        """And nobody opens the circuit with it."""
        source = self.make(
            query="select password_hash from users where number = :username::integer"
        )
        for _ in range(10):
            answer = await ask(source, make_claim(username="bob"))
            self.assertEqual(answer.outcome, NO)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, 0)
        self.assertEqual((await ask(source, make_claim(username="7"))).outcome, YES)

    async def test_lists_and_json(self) -> None:
        source = self.make(
            query="select password_hash, array['a', 'b'] as roles, true as superuser,"
            """ '{"line": 3, "hot": true}'::jsonb as attributes, null as tenant"""
            " from users where name = :username"
        )
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, YES, answer.text)
        assert answer.identity is not None
        self.assertEqual(answer.identity.roles, ("a", "b", "admin"))
        self.assertEqual(answer.identity.attributes, {"line": "3", "hot": "true"})
        self.assertEqual(answer.identity.tenant, "")

    async def test_unix_socket(self) -> None:
        source = self.make(host=str(self.server.directory))
        self.assertEqual((await ask(source, make_claim())).outcome, YES)


class MariaTests(MariaCase, UserSuite, GoAuthSuite, TestCase):
    joined = "concat('plain:', :password)"
    tables = (
        "create table mhub_test.test_user (id mediumint not null auto_increment, username"
        " varchar(100) not null, password_hash varchar(200) not null, is_admin boolean not null,"
        " primary key(id))",
        "create table mhub_test.test_acl (id mediumint not null auto_increment, test_user_id"
        " mediumint not null, topic varchar(200) not null, rw int not null, primary key(id),"
        " foreign key(test_user_id) references test_user(id) ON DELETE CASCADE ON UPDATE CASCADE)",
    )
    queries = {
        "query": "SELECT password_hash FROM test_user WHERE username = ? limit 1",
        "superuser_query": "select count(*) from test_user where username = ? and is_admin = true",
        "acl_query": "SELECT test_acl.topic FROM test_acl, test_user WHERE test_user.username = ?"
        " AND test_acl.test_user_id = test_user.id AND (rw = ? or rw = 3)",
    }

    async def test_names_are_compared_as_the_manual_says(self) -> None:
        """Else each spelling would be another user, to whom no rule and no ban applies."""
        others = ("ALICE", "alicé", "alice ")
        for name in others:  # what the manual warns of
            self.assertEqual((await self.ask(username=name)).outcome, YES, name)
        exact = "select password_hash from users where name = :username and binary name = :username"
        source = self.make(query=exact)
        for name in others:
            answer = await ask(source, make_claim(username=name))
            self.assertEqual(answer.outcome, NOT_MINE, (name, answer.text))
        self.assertEqual((await ask(source, make_claim())).outcome, YES)

    async def test_parameters_are_bound_whatever_a_backslash_means(self) -> None:
        self.server.run("set global sql_mode = 'NO_BACKSLASH_ESCAPES'")
        try:
            source = self.make()
            for name in ("' or '1'='1", "\\' or 1=1 -- ", "\\", "alice\\"):
                answer = await ask(source, make_claim(username=name))
                self.assertEqual(answer.outcome, NOT_MINE, (name, answer.text))
            self.assertEqual((await ask(source, make_claim())).outcome, YES)
        finally:
            self.server.run("set global sql_mode = default")

    async def test_unix_socket(self) -> None:
        self.server.run(
            "create or replace user mhub@localhost identified by 'mhub-test'",
            "grant all on mhub_test.* to mhub@localhost",
        )
        source = self.make(host=f"{self.server.directory}/mysql.sock")
        answer = await ask(source, make_claim())
        self.assertEqual(answer.outcome, YES, answer.text)


class FaultSuite:
    """What becomes of clients when the server hangs, dies, comes back."""

    def setUp(self: Any) -> None:
        self.server = shared_database(self.server_class)
        self.addCleanup(self.server.restore)
        self.prepare(self.server)
        self.context = make_context(reactor)
        self.source = self.make(
            timeout_s=3.0, max_concurrent=2, breaker_failures=2, breaker_pause_s=0.1
        )

    async def until_yes(self: Any) -> None:
        for _ in range(200):
            answer = await self.ask()
            if answer.outcome == YES:
                return
            pause: Deferred[None] = Deferred()
            reactor.callLater(0.05, pause.callback, None)  # type: ignore[attr-defined]
            await pause
        self.fail(answer.text)

    async def test_hangs_and_goes_on(self: Any) -> None:
        await self.until_yes()
        self.server.pause()
        answers = await DeferredList([self.ask(client_id=f"c{n}") for n in range(5)])
        self.assertEqual({answer.outcome for _, answer in answers}, {CANNOT_TELL})
        # The threads are free, although the server still hangs.
        for _ in range(100):
            if self.source.backend.running == 0:
                break
            pause: Deferred[None] = Deferred()
            reactor.callLater(0.05, pause.callback, None)  # type: ignore[attr-defined]
            await pause
        self.assertEqual(self.source.backend.running, 0)
        self.server.go_on()
        await self.until_yes()

    async def test_restarts_while_nobody_asks(self: Any) -> None:
        """No login fails for a connection that was lost meanwhile."""
        await DeferredList([self.ask(client_id=f"c{n}") for n in range(5)])
        failures = self.context.hub.stats.auth_backend_failures
        self.server.stop()
        self.server.start()
        answers = await DeferredList([self.ask(client_id=f"c{n}") for n in range(5)])
        self.assertEqual([answer.text for _, answer in answers], [""] * 5)
        self.assertEqual(self.context.hub.stats.auth_backend_failures, failures)

    async def test_dies_and_comes_back(self: Any) -> None:
        await self.until_yes()
        self.server.kill()
        # At once: more than are asked about before the circuit is open.
        answers = await DeferredList([self.ask(client_id=f"c{n}") for n in range(10)])
        self.assertEqual({answer.outcome for _, answer in answers}, {CANNOT_TELL})
        self.assertGreaterEqual(self.context.hub.stats.auth_backend_rejected, 1)
        self.server.start()
        await self.until_yes()

    async def test_stops_while_it_hangs(self: Any) -> None:
        await self.until_yes()
        self.server.pause()
        asked = self.ask()
        await self.source.stop()
        self.assertEqual((await asked).outcome, CANNOT_TELL)


class PostgresFaultTests(FaultSuite, PostgresCase, TestCase):
    pass


class MariaFaultTests(FaultSuite, MariaCase, TestCase):
    pass


class TlsSuite:
    """The connection is encrypted, and the server is the right one."""

    options_of_tls: tuple[str, ...] = ()

    def setUp(self: Any) -> None:
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        self.authority = Authority("Database CA")
        self.authority.write(folder / "ca.pem")
        Authority("Another CA").write(folder / "other.pem")
        self.authority.issue("localhost", folder / "server.pem", folder / "server.key")
        self.authority.issue("mhub", folder / "client.pem", folder / "client.key")
        self.folder = folder
        authority = self

        class Server(self.server_class):  # type: ignore[misc,name-defined]
            def prepare(self) -> None:
                super().prepare()
                for name in ("server.pem", "server.key", "ca.pem"):
                    target = self.directory / name
                    target.write_bytes((folder / name).read_bytes())
                    target.chmod(0o600)
                    if self._as:
                        import os

                        os.chown(target, self._as["user"], self._as["group"])
                self.options = tuple(
                    each.format(folder=self.directory) for each in authority.options_of_tls
                )

        self.server = Server()
        self.addCleanup(self.server.remove)
        self.prepare(self.server)
        self.require()
        self.context = make_context(reactor)

    async def test_tls(self: Any) -> None:
        files = {"tls": True, "ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
        for changed, outcome in (
            ({}, YES),
            ({"host": "127.0.0.1"}, CANNOT_TELL),  # the certificate is for another name
            ({"ca": "other.pem"}, CANNOT_TELL),
            ({"certificate": "", "key": ""}, CANNOT_TELL),
            ({"tls": False}, CANNOT_TELL),
        ):
            settings = files | changed
            for name in ("ca", "certificate", "key"):
                settings[name] = str(self.folder / str(settings[name])) if settings[name] else ""
            source = self.make(**({"host": "localhost"} | settings))
            answer = await ask(source, make_claim())
            self.assertEqual(answer.outcome, outcome, (changed, answer.text))


class PostgresTlsTests(TlsSuite, PostgresCase, TestCase):
    options_of_tls = (
        "-c",
        "ssl=on",
        "-c",
        "ssl_cert_file={folder}/server.pem",
        "-c",
        "ssl_key_file={folder}/server.key",
        "-c",
        "ssl_ca_file={folder}/ca.pem",
    )

    def require(self) -> None:
        rules = "host all postgres 127.0.0.1/32 scram-sha-256\n" + (
            "hostssl all mhub 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n"
        )
        (self.server.data / "pg_hba.conf").write_text(rules)
        self.server.run("select pg_reload_conf()")


class MariaTlsTests(TlsSuite, MariaCase, TestCase):
    options_of_tls = (
        "--ssl-cert={folder}/server.pem",
        "--ssl-key={folder}/server.key",
        "--ssl-ca={folder}/ca.pem",
    )

    def require(self) -> None:
        self.server.run("alter user mhub@'127.0.0.1' require x509")


class QueryTests(SynchronousTestCase):
    """Parameters in what an operator has written."""

    def read(self, dialect: str, sql: str) -> str:
        query = Query(sql, dialect, ("username", "client_id", "acc"), ("username", "acc"))
        self.names = query.names
        return query.text

    def test_both(self) -> None:
        for dialect in ("postgresql", "mysql"):
            for sql, text in (
                ("a = :username", "a = %(username)s"),
                ("a=:username and b=:client_id", "a=%(username)s and b=%(client_id)s"),
                ("a like 'x%' and b % 2 = 0", "a like 'x%%' and b %% 2 = 0"),
                ("':username' = :username", "':username' = %(username)s"),
                ("'it''s :acc' :acc", "'it''s :acc' %(acc)s"),
                ('":acc"', '":acc"'),
                ("-- :acc\n:acc", "-- :acc\n%(acc)s"),
                ("/* :acc ' */ :acc", "/* :acc ' */ %(acc)s"),
            ):
                self.assertEqual(self.read(dialect, sql), text)

    def test_postgresql(self) -> None:
        for sql, text in (
            ("a = $1 or a = $2", "a = %(username)s or a = %(acc)s"),
            ("a::text = :username::text", "a::text = %(username)s::text"),
            ("'\\' || :acc", "'\\' || %(acc)s"),
            ("E'\\' :acc' || :acc", "E'\\' :acc' || %(acc)s"),
            ("$$ :acc $1 $$ :acc", "$$ :acc $1 $$ %(acc)s"),
            ("$x$ :acc $$ $x$ :acc", "$x$ :acc $$ $x$ %(acc)s"),
            ("data ? 'a' and data->>'%' = :acc", "data ? 'a' and data->>'%%' = %(acc)s"),
            ("a[1:2]", "a[1:2]"),
        ):
            self.assertEqual(self.read("postgresql", sql), text)

    def test_mysql(self) -> None:
        for sql, text in (
            ("a = ? and b = ?", "a = %(username)s and b = %(acc)s"),
            ("'it\\'s ?' = ?", "'it\\'s ?' = %(username)s"),
            ("`a:acc?` = :acc", "`a:acc?` = %(acc)s"),
            ("# ?\n:acc", "# ?\n%(acc)s"),
            ("@x := 1", "@x := 1"),
            ("cost = '$1'", "cost = '$1'"),
        ):
            self.assertEqual(self.read("mysql", sql), text)

    def test_names_once(self) -> None:
        self.read("postgresql", ":acc :username :acc")
        self.assertEqual(self.names, ["acc", "username"])

    def test_mistakes(self) -> None:
        for dialect, sql, problem in (
            ("postgresql", ":user", ":user is no parameter; there are :username"),
            ("postgresql", "$3", "$3: there are 2 such parameters"),
            ("mysql", "? ? ?", "?: there are 2 such parameters"),
        ):
            error = self.assertRaises(ValueError, self.read, dialect, sql)
            self.assertIn(problem, str(error))


class SettingsTests(SynchronousTestCase):
    def test_mistakes(self) -> None:
        for settings, problem in (
            ({"query": "select 1"}, "query: needs :username, which says who the client is"),
            ({"query": "select :client_id"}, "query: needs :username"),
            ({"query": "select :username, :password"}, "query: :password is no parameter"),
            ({"acl_query": "select topic from acl"}, "acl_query: needs :username"),
            ({"identify_by": "both"}, "query: needs :client_id"),
            ({"superuser_query": "select $2"}, "superuser_query: $2"),
            ({"verify": "query"}, 'query: needs :password, as verify = "query"'),
            ({"ca": "x.pem"}, "ca: needs tls = true"),
            ({"password": "x", "password_file": "y"}, "password_file: not together with password"),
        ):
            given = {"query": "select hash from u where n = :username"} | settings
            found = problems(postgresql, **given)
            self.assertEqual(len(found), 1, found)
            self.assertIn(problem, found[0])

    def test_right(self) -> None:
        self.assertEqual(problems(mysql, query="select hash from u where n = ?"), [])

    def test_no_secret_is_shown(self) -> None:
        for module in (postgresql, mysql):
            self.assertNotIn("hidden", repr(module.Settings(password="hidden")))
