"""A web service that is asked about clients.

    POST url  {"username": ..., "password": ..., "clientid": ...}
    -> 2xx    allow: no body, or a JSON object {"result": "allow", "roles": [...], ...}
                                               {"result": "deny"}, {"result": "ignore"}
    -> 4xx    deny; those of `ignore_status`: not ours
    -> else   cannot tell: 3xx, 408, 429, 5xx.  A redirect is never followed

The members of the object are the fields that mhub.auth.external names.

For services made for mosquitto-go-auth there are the answers `{"ok": true}` and `ok`, a request for
superusers, and one for its aclcheck, which asks about a topic at a time.  A broker that asks
somebody for each topic waits for them with each message; here it is asked at CONNECT, about the
topics of `acl_topics`, and what it allows becomes grants.

What a client sends is a value in JSON or a form; in a URL or a header it is percent-encoded: it can
neither end a line there nor begin another header.
"""

import json
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from twisted.internet.defer import Deferred

from mhub.auth.backend import plain
from mhub.auth.contract import Answer, Context, Source, no, not_mine
from mhub.auth.external import ExternalSettings, ExternalSource, Malformed, missing_facts
from mhub.auth.facts import SHORT, Template, facts_of
from mhub.auth.grants import grant
from mhub.config.kinds import Boolean, Choice, FilePath, Integer, Place, Size, Text, Texts, Url
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import ListOf, setting
from mhub.config.servers import check_client_tls
from mhub.core.authentication import Claim
from mhub.wire.topics import filter_problem

KIND: Final = "http"
MAX_TOPICS: Final = 32
TRY_LATER: Final = (408, 429)
ACCESS: Final = ((1, "receive"), (2, "publish"), (4, "subscribe"))
"""MOSQ_ACL_READ, _WRITE and _SUBSCRIBE."""

_HOLE: Final = re.compile(r"%([uc])")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What may stand in a header besides letters and digits; a percent sign begins an escape.
_HEADER_SAFE: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, repr=False)  # no repr: headers may have secrets in them
class Settings(ExternalSettings):
    url: str = setting(
        Url(empty=False),
        "",
        "Where to ask; placeholders may stand in its path and query.",
        required=True,
    )
    method: str = setting(Choice("POST", "GET", "PUT"), "POST", "The method of the request.")
    headers: tuple[tuple[str, str], ...] = setting(
        Texts(secret=True), (), "Headers of the request, with placeholders.", shown="none"
    )
    body: str = setting(Choice("json", "form", "none"), "json", "How `fields` are sent.")
    fields: tuple[tuple[str, str], ...] = setting(
        Texts(secret=True),
        (("username", "%u"), ("password", "%{password}"), ("clientid", "%c")),
        "What is sent, with placeholders.",
    )
    response: str = setting(
        Choice("json", "status", "text"),
        "json",
        "What tells the answer, if the status is 2xx: a JSON object, or no body; the status alone;"
        " the text `ok`.",
    )
    ignore_status: tuple[int, ...] = setting(
        ListOf(Integer(400, 499)),
        (404,),
        "Which status says that the service does not know the client, and others are asked.",
    )
    ask_without_password: bool = setting(
        Boolean(), False, "Whether to ask about clients that have sent no password."
    )
    superuser_url: str = setting(
        Url(), "", "Where to ask whether a user is a superuser (mosquitto-go-auth).", shown="none"
    )
    acl_url: str = setting(
        Url(), "", "Where to ask about `acl_topics` (mosquitto-go-auth).", shown="none"
    )
    acl_topics: tuple[str, ...] = setting(
        ListOf(Text(empty=False)),
        (),
        "The topics and filters, with %u and %c, that are asked about when a client connects: each"
        " three times, for reading, writing and subscribing.",
    )
    max_body: int = setting(Size(0, 1 << 24), 64 << 10, "How long an answer may be.")
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


def check(settings: Settings, place: Place) -> None:
    secure = True
    for name in ("url", "superuser_url", "acl_url"):
        url = getattr(settings, name)
        if url:
            _check_url(url, place.at(name))
            secure = secure and url.lower().startswith("https:")
    names: list[str] = []
    for table in ("headers", "fields"):
        for name, value in getattr(settings, table):
            names += _names(value, place.at(table).at(name))
            if table == "headers" and not (
                _TOKEN.fullmatch(name) and value.isprintable() and value.isascii()
            ):
                place.at(table).at(name).wrong("is not a header of HTTP")
    names += _names(settings.url, place.at("url"), report=False)
    for name in missing_facts(settings.identify_by, names):
        place.at("fields").wrong(f"needs %{{{name}}}, which says who the client is (identify_by)")
    if settings.acl_topics and not settings.acl_url:
        place.at("acl_topics").wrong("needs acl_url")
    if settings.acl_url and not settings.acl_topics:
        place.at("acl_topics").wrong("missing; acl_url needs it: see external-users.md")
    if len(settings.acl_topics) > MAX_TOPICS:
        place.at("acl_topics").wrong(f"{MAX_TOPICS} are as many as may be")
    for index, topic in enumerate(settings.acl_topics):
        if problem := filter_problem(topic):
            place.at("acl_topics").item(index).wrong(problem)
    check_client_tls(settings, place, is_on=secure, on="https")


def _check_url(url: str, place: Place) -> None:
    names = _names(url, place)
    if "password" in names:
        place.wrong("must not have the password in it: servers log where they are asked")
    if not url.isascii() or not url.isprintable() or " " in url or "#" in url:
        place.wrong("expected a URL, in ASCII, without spaces or a fragment")
        return
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        place.wrong(f"not a URL: {error}")
        return
    if parts.scheme not in ("http", "https") or not host:
        place.wrong("expected a URL that begins with http:// or https:// and a host")
    elif "%" in parts.netloc or "@" in parts.netloc:
        place.wrong("neither placeholders nor a password may stand in the host")
    elif parts.scheme == "http" and not _is_loopback(host):
        place.report.warn(place.path, f"passwords of clients go to {host} unencrypted")


def _names(text: str, place: Place, *, report: bool = True) -> list[str]:
    try:
        return Template(text).names
    except ValueError as problem:
        if report:
            place.wrong(str(problem))
        return []


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make(name: str, settings: Settings, context: Context) -> Source:
    try:
        from mhub.auth.http_client import HttpClient
    except ModuleNotFoundError as error:
        if error.name != "treq":
            raise
        text = f'type = "{KIND}" needs treq: pip install "mhub-broker[http]"'
        raise ConfigError(f"auth {name}", [Problem("", 0, text)]) from error
    client = HttpClient(
        context.reactor,
        settings.max_concurrent,
        settings.max_body,
        (settings.ca, settings.certificate, settings.key),
    )
    return HttpSource(name, settings, context, client)


class HttpSource(ExternalSource):
    kind = KIND

    def __init__(self, name: str, settings: Settings, context: Context, client: Any) -> None:
        super().__init__(name, settings, context)
        self.takes_passwords = not settings.ask_without_password
        self._http = settings
        self._client = client
        self._url = Template(settings.url)
        self._superuser_url = Template(settings.superuser_url)
        self._acl_url = Template(settings.acl_url)
        self._headers = [(name, Template(value)) for name, value in settings.headers]
        self._fields = [(name, Template(value)) for name, value in settings.fields]
        templates = [self._url, *(each for _, each in [*self._headers, *self._fields])]
        templates += [self._superuser_url, self._acl_url]
        used = {name for each in templates for name in each.names}
        if settings.acl_topics:
            used |= {"username", "client_id"}
        self.facts = tuple(sorted(used - {"password"}))
        self._needs = tuple(sorted(used | {"username", "client_id"}))

    def stop(self) -> "Deferred[None] | None":
        super().stop()
        stopped: Deferred[None] = self._client.stop()
        return stopped

    async def judge(self, claim: Claim) -> Answer:
        facts = facts_of(claim, self._needs)
        sent = {name: template.fill(facts) for name, template in self._fields}
        status, body = await self.ask(
            claim, lambda: Deferred.fromCoroutine(self._request(self._url, sent, facts))
        )
        if status in self._http.ignore_status:
            return not_mine()
        if status >= 400:
            return no(f"{self.backend.name} answers with status {status}")
        found = self._read(body)
        if found is None:
            return not_mine()
        if found.get("denied") is not None:
            return no(f"{self.backend.name} denies: {plain(str(found['denied']))}")
        if self._superuser_url.text or self._http.acl_topics:
            found |= await self.ask(
                claim, lambda: Deferred.fromCoroutine(self._rights(facts, found))
            )
        return self.accept(claim, found, others=False)

    def _read(self, body: bytes) -> dict[str, Any] | None:
        """What the service says of the user; `denied` is why it is refused.  None: not its own."""
        if self._http.response == "status" or (self._http.response == "json" and not body.strip()):
            return {}
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Malformed("the answer is not UTF-8") from None
        if self._http.response == "text":
            return {} if text.strip() == "ok" else {"denied": text}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise Malformed("the answer is not JSON") from None
        if not isinstance(found, dict):
            raise Malformed("the answer is not a JSON object")
        result = found.get("result")
        if result is None:
            said = found.get("ok", found.get("Ok"))
            if not isinstance(said, bool):
                raise Malformed('the answer has no "result"')
            result = "allow" if said else "deny"
        if result == "ignore":
            return None
        if result not in ("allow", "deny"):
            raise Malformed('"result" is not allow, deny or ignore')
        found.pop("denied", None)
        if result == "deny":
            return {"denied": found.get("error") or found.get("Error") or "no reason given"}
        return found

    async def _rights(self, facts: dict[str, str], found: dict[str, Any]) -> dict[str, Any]:
        """The answers to the other two requests of mosquitto-go-auth."""
        rights: dict[str, Any] = {}
        if self._superuser_url.text:
            sent = {"username": facts["username"]}
            rights["superuser"] = await self._allows(self._superuser_url, sent, facts)
        grants: list[str] = []
        for topic in self._http.acl_topics:
            asked = _HOLE.sub(lambda hole: facts[SHORT[hole[1]]], topic)
            for acc, action in ACCESS:
                acl = {
                    "username": facts["username"],
                    "clientid": facts["client_id"],
                    "topic": asked,
                    "acc": acc,
                }
                if await self._allows(self._acl_url, acl, facts):
                    grants.append(grant(action, topic))
        if grants:
            rights["grants"] = [*(found.get("grants") or []), *grants]
        return rights

    async def _allows(self, url: Template, sent: dict[str, Any], facts: dict[str, str]) -> bool:
        status, body = await self._request(url, sent, facts)
        if status >= 400:
            return False
        try:
            found = self._read(body)
        except Malformed:
            return False
        return found is not None and found.get("denied") is None

    async def _request(
        self, url: Template, sent: dict[str, Any], facts: dict[str, str]
    ) -> tuple[int, bytes]:
        """Status and body.  Raises what counts as a failure of the service."""
        headers = {name: each.fill(facts, _in_header) for name, each in self._headers}
        data = b""
        if self._http.body == "json":
            headers.setdefault("Content-Type", "application/json")
            data = json.dumps(sent).encode("ascii")
        elif self._http.body == "form":
            headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
            data = urlencode(sent).encode("ascii")
        target = url.fill(facts, _in_url)
        status, body = await self._client.request(self._http.method, target, headers, data)
        if not 200 <= status < 300 and not (400 <= status < 500 and status not in TRY_LATER):
            redirect = ", which is not followed" if 300 <= status < 400 else ""
            raise OSError(f"status {status}{redirect}")
        return status, body


def _in_url(fact: str) -> str:
    return quote(fact, safe="")


def _in_header(fact: str) -> str:
    return quote(fact, safe=_HEADER_SAFE)
