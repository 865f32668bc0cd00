"""Every endpoint of a running broker: without a login, without the permission, with it, by tokens.

What an endpoint is asked with is in SAMPLES; one that is missing there fails the test, so that none
comes without having been tried.
"""

from typing import Any, NamedTuple
from urllib.parse import urlencode

from mhub.access.scopes import FORBIDDEN
from mhub.admin.endpoint import EVENTS, Endpoint
from mhub.admin.resources import ENDPOINTS
from tests.helpers import packets as p
from tests.system.case import BrokerCase
from tests.system.raw import Raw
from tests.system.web import ADMIN, PASSWORD, Reply, Web

QUICK = "\n[passwords]\nscram_iterations = 4096\n"
CONFIG = QUICK + ADMIN + "max_requests_per_s = 0\n"


class Sample(NamedTuple):
    """What to ask with; `statuses` are those of one who may."""

    query: dict[str, Any] = {}
    body: object = None
    statuses: tuple[int, ...] = (200,)
    headers: dict[str, str] = {}


SAMPLES: dict[str, Sample] = {
    "openapi": Sample(),
    "plugins": Sample(),
    "login": Sample(body={"user": "ann", "password": PASSWORD}),
    "logout": Sample(statuses=(204,)),
    "session": Sample(),
    "change-password": Sample(body={"current": PASSWORD, "new": PASSWORD}, statuses=(200, 403)),
    "users": Sample(),
    "add-user": Sample(body={"name": "new"}, statuses=(200, 409)),
    "import-users": Sample(body={"hashes": {}}),
    "user": Sample({"name": "ann"}),
    "change-user": Sample({"name": "ann"}, {"note": "tall"}),
    "delete-user": Sample({"name": "victim"}, None, (200, 404)),
    "set-user-password": Sample({"name": "victim"}, {"password": PASSWORD}, (200, 404)),
    "lock-user": Sample({"name": "victim"}, {"locked": True}, (200, 404, 409)),
    "roles": Sample(),
    "add-role": Sample(body={"name": "new"}, statuses=(200, 409)),
    "role": Sample({"name": "device"}),
    "change-role": Sample({"name": "device"}, {"note": "small"}),
    "delete-role": Sample({"name": "nobody"}, None, (404,)),
    "policies": Sample(),
    "policies-in-force": Sample(),
    "change-policies": Sample(body={"add": []}, statuses=(200, 400)),
    "export-policies": Sample(),
    "import-policies": Sample(
        {}, b"p, role:x, *, publish, t, any, allow\n", (200,), {"Content-Type": "text/csv"}
    ),
    "try-policies": Sample(body={"add": [["p", "role:x", "*", "publish", "u", "any", "allow"]]}),
    "propose-policies": Sample(
        {"action": "publish", "user": "ann", "topic": "t"}, None, (200, 409)
    ),
    "explain": Sample({"action": "admin:read", "user": "ann", "topic": "users"}, None, (200, 409)),
    "bans": Sample(),
    "add-ban": Sample(body={"kind": "client", "value": "bad"}),
    "remove-ban": Sample({"kind": "client", "value": "bad"}, None, (200, 404)),
    "lockouts": Sample(),
    "remove-lockout": Sample({"kind": "user", "value": "nobody"}, None, (404,)),
    "limits": Sample(),
    "tokens": Sample(),
    "add-token": Sample(body={"name": "new", "scopes": ["read"]}, statuses=(200, 409)),
    "revoke-token": Sample({"id": "none"}, None, (404,)),
    "clients": Sample(),
    "clients-top": Sample(),
    "client": Sample({"client_id": "pump"}),
    "client-disconnect": Sample(body={"client_id": "nobody"}, statuses=(404,)),
    "client-session-delete": Sample({"client_id": "nobody"}, None, (404,)),
    "client-subscribe": Sample(body={"client_id": "pump", "filter": "a/b"}),
    "client-unsubscribe": Sample(body={"client_id": "pump", "filter": "a/b"}, statuses=(200, 404)),
    "subscriptions": Sample(),
    "groups": Sample(),
    "routes": Sample({"topic": "t"}),
    "topics-top": Sample(),
    "topics-tree": Sample(),
    "retained": Sample(),
    "retained-tree": Sample(),
    "retained-message": Sample({"topic": "kept"}),
    "retained-delete": Sample({"topic": "none"}, None, (404,)),
    "stats": Sample(),
    "status": Sample(),
    "metrics": Sample(),
    "health": Sample(),
    "ready": Sample(),
    "history": Sample(),
    "live": Sample(),
    "events": Sample(),
    "denials": Sample(),
    "store": Sample(),
    "store-export": Sample(),
    "mqtt-publish": Sample(body={"topic": "users/ann/x", "payload": "1"}),
    "mqtt-publish-raw": Sample({"topic": "users/ann/x"}, b"1"),
    "mqtt-publish-batch": Sample(body={"messages": [{"topic": "users/ann/x"}]}),
    "mqtt-retained": Sample({"topic": "users/ann/none"}, None, (404,)),
    "mqtt-request": Sample(body={"topic": "users/ann/x", "timeout_s": 0.1}, statuses=(504,)),
    "mqtt-subscribe": Sample({"filter": "users/ann/#"}),
    "presence": Sample(),
    "cluster": Sample(statuses=(409,)),  # this broker is alone
    "cluster-totals": Sample(),
    "cluster-leave": Sample({"node": "a"}, None, (409,)),
    "cluster-forget": Sample({"node": "a"}, None, (409,)),
    "listeners": Sample(),
    "open-listener": Sample(body={"name": "none"}, statuses=(404,)),
    "close-listener": Sample(body={"name": "none"}, statuses=(404,)),
    "configuration": Sample(),
    "check-configuration": Sample(body={"text": ""}),
    "reload-configuration": Sample(),
    "log-level": Sample(),
    "set-log-level": Sample(body={"level": "info"}),
    "recent-log": Sample(),
    "trace": Sample({"topic": "t"}),
}


class PermissionTests(BrokerCase):
    def test_samples_are_complete(self) -> None:
        self.assertEqual(sorted(SAMPLES), sorted(each.name for each in ENDPOINTS))

    def test_every_endpoint(self) -> None:
        broker = self.start(CONFIG)
        web = Web(broker)
        client = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(client.sock.close)
        client.connect("pump")
        client.send(p.publish("kept", b"1", retain=True, version=5))
        client.ping()
        web.add_user("ann")
        web.add_user("victim")
        web.add_user("root", "admin")
        everybody = web.as_user("ann")
        for each in ENDPOINTS:
            self.without(web, everybody, each)
        for each in ENDPOINTS:
            self.with_permission(web, each)

    def without(self, nobody: Web, ann: Web, each: Endpoint) -> None:
        """No login is 401, a login without the permission 403, and so is a token without scope."""
        if each.public == "open":
            self.assertIn(self.ask(nobody, each).status, SAMPLES[each.name].statuses, each.name)
            return
        self.assertEqual(self.ask(nobody, each).status, 401, each.name)
        if each.resource:
            reply = self.ask(ann, each)
            self.assertEqual(reply.status, 403, each.name)
            self.assertIn(f"admin:{each.verb}", reply.json["detail"])
            other = "write" if each.verb == "read" else "read"
            token = self.token(nobody, other)
            self.assertEqual(self.ask(token, each).status, 403, each.name)

    def setUp(self) -> None:
        self.tokens: dict[tuple[str, ...], Web] = {}

    def with_permission(self, web: Web, each: Endpoint) -> None:
        """Exactly what it says that it needs is enough."""
        name = f"u-{each.name}"
        web.add_user(name)
        if each.resource:
            web.allow(f"p, user:{name}, *, admin:{each.verb}, {each.resource}, any, allow")
        if each.name.startswith("mqtt"):
            web.allow(f"p, user:{name}, *, publish|subscribe|receive, users/ann/#, any, allow")
        self.try_it(web.as_user(name), each)
        if not each.resource:
            return
        if self.is_for_tokens(each):
            token = self.token(web, f"{each.verb}:{each.resource}")
            self.try_it(token, each)
        else:
            token = self.token(web, "read", "write")
            self.assertEqual(self.ask(token, each).status, 403, each.name)

    def try_it(self, web: Web, each: Endpoint) -> None:
        reply = self.ask(web, each)
        self.assertIn(reply.status, SAMPLES[each.name].statuses, f"{each.name}: {reply}")

    def token(self, web: Web, *scopes: str) -> Web:
        """One with all rights, but for those that its scopes do not have."""
        if scopes not in self.tokens:
            self.tokens[scopes] = web.as_token(*scopes)
        return self.tokens[scopes]

    def is_for_tokens(self, each: Endpoint) -> bool:
        return each.tokens and (each.verb, each.resource) not in FORBIDDEN

    def ask(self, web: Web, each: Endpoint) -> Reply:
        sample = SAMPLES[each.name]
        path = each.path + ("?" + urlencode(sample.query) if sample.query else "")
        if each.stream == EVENTS:
            return web.begin(path)
        return web.ask(each.method, path, sample.body, sample.headers)
