"""Secrets in the configuration: they are marked by their kind, and shown by nobody."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.config import ConfigError, parse
from mhub.config.auth import COMMON, Sources
from mhub.config.kinds import REDACTED, Secret, Text, Texts, Url
from mhub.config.load import TOP
from mhub.config.schema import Key
from mhub.config.view import shown

SUSPICIOUS = re.compile(r"secret|passw|token|dsn|passphrase|credential|headers|api_key")
NO_SECRETS = {"listeners.username_as_client_id"}
"""Keys with a suspicious name that have no secret."""

SECRETS = """
[[auth]]
type = "http"
url = "https://a.example/x"
headers = { Authorization = "s3kr1t-1" }
fields = { key = "s3kr1t-2", user = "%u" }
[[auth]]
type = "jwt"
secret = "s3kr1t-3-that-has-at-least-32-bytes"
[[auth]]
type = "redis"
password = "s3kr1t-4"
[[auth]]
type = "postgresql"
database = "d"
username = "u"
password = "s3kr1t-5"
query = "select 1 from u where u = :username"
[store]
kind = "redis"
redis.password = "s3kr1t-6"
[cluster]
name = "c"
node = "a"
secret = "s3kr1t-7-of-16-characters"
[influx]
url = "http://127.0.0.1:8086"
org = "o"
bucket = "b"
token = "s3kr1t-8"
"""


def all_keys(keys: Mapping[str, Key[Any]], path: str) -> Iterator[tuple[str, Key[Any]]]:
    for name, key in keys.items():
        yield path + name, key
        kind = key.kind
        if isinstance(kind, Sources):
            for own in ({**COMMON}, *kind.types().values()):
                yield from all_keys(own, f"{path}{name}.")
        else:
            yield from all_keys(kind.keys, f"{path}{name}.")


def is_marked(key: Key[Any]) -> bool:
    kind = key.kind
    return isinstance(kind, Secret) or (isinstance(kind, Texts) and kind.is_secret)


class SecretTests(SynchronousTestCase):
    def test_every_key_that_looks_like_one_is_marked(self) -> None:
        """A text whose name says secret, password, token and so on is of the kind Secret."""
        found = 0
        for path, key in all_keys(TOP, ""):
            name = path.rpartition(".")[2]
            if not SUSPICIOUS.search(name) or not isinstance(key.kind, (Text, Texts)):
                continue  # a number, a switch, the path of a file
            if path not in NO_SECRETS:
                self.assertTrue(is_marked(key), f"{path} has to be of the kind Secret")
                found += 1
        self.assertGreaterEqual(found, 6)

    def test_the_view_has_none(self) -> None:
        settings = parse(SECRETS, "x.toml")
        text = json.dumps(shown(settings))
        self.assertNotIn("s3kr1t", text)
        self.assertEqual(text.count(f'"{REDACTED}"'), 9)

    def test_a_key_in_a_url_is_one(self) -> None:
        kind = Url()
        for url, seen in (
            ("https://a.example/x", "https://a.example/x"),
            (
                "https://a/x?user=%u&key=s3&c=%{client_id}",
                "https://a/x?user=%u&key=***&c=%{client_id}",
            ),
            ("https://a/x?s3", "https://a/x?***"),
            ("https://a/x?u=%us3&k=s3=3", "https://a/x?u=***&k=***"),
            ("https://a/x?k=", "https://a/x?k="),
            ("http://me:s3@a:80/x", "http://***@a:80/x"),
        ):
            self.assertEqual(kind.redacted(url), seen)
            self.assertEqual(kind.show(url), f'"{seen}"')
        settings = parse(
            "[[auth]]\ntype = 'http'\nurl = 'https://a/x?key=s3kr1t-9&user=%u'\n", "x.toml"
        )
        text = json.dumps(shown(settings))
        self.assertIn("https://a/x?key=***&user=%u", text)
        self.assertNotIn("s3kr1t", text)
        text = "[influx]\nurl = 'http://u:s3kr1t@127.0.0.1:1'\ndb = 'd'\n"
        error = self.assertRaises(ConfigError, parse, text, "x.toml")
        self.assertNotIn("s3kr1t", str(error))
        self.assertIn("***@127.0.0.1", str(error))

    def test_nor_have_mistakes(self) -> None:
        """What stands in the place of a secret may be one, though of a wrong type."""
        for table in (
            "[store]\nkind = 'redis'\nredis.password = 5317531753\n",
            "[cluster]\nname = 'c'\nnode = 'a'\nsecret = 5317531753\n",
            "[[auth]]\ntype = 'http'\nurl = 'https://a'\nheaders = { a = 5317531753 }\n",
        ):
            error = self.assertRaises(ConfigError, parse, table, "x.toml")
            self.assertNotIn("5317531753", str(error))
            self.assertIn("not shown", str(error))

    def test_what_is_not_set_shows_that(self) -> None:
        view: Any = shown(parse("[store]\nkind = 'redis'\n", "x.toml"))
        self.assertEqual(view["store"]["redis"]["password"], "")
