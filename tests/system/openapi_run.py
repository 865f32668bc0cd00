"""Schemathesis over the OpenAPI document of a broker that runs.

    python -m tests.system.openapi_run --examples 1000 [--seed N] [--only REGEX]

It asks for everything that the document describes, with values that fit it and values that do not,
and compares the answers with what the document says of them; schemathesis.toml beside this file
says which checks there are and what is left out.

Whoever asks must not lock itself out by a change that happens to be about itself.  So who it is
stands in a password file, and what it may do in a policy file: the API changes the registry alone.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mhub.auth import hashes
from tests.helpers import packets as p
from tests.system.process import PATIENCE_S, Broker, environment
from tests.system.raw import Raw
from tests.system.web import PASSWORD, Web

USER = "fuzzer"
SETTINGS = Path(__file__).with_name("schemathesis.toml")

CONFIG = """
[limits]
allow_anonymous = true

[passwords]
scram_iterations = 4096

[guard]
login_failures = 0
address_failures = 0
user_failures = 0

[[auth]]
type = "password-file"
file = "users"

[[auth]]
type = "registry"

[access]
policy = "policy.csv"

[admin]
port = 0
basic = true
max_requests_per_s = 0
"""

POLICY = f"""
p, role:everyone, *, connect, #, any, allow
p, role:everyone, *, publish|subscribe|receive, #, any, allow
p, user:{USER}, *, admin:read|admin:write, #, any, allow
"""


def prepare(directory: Path) -> str:
    """The files that the broker needs, and its configuration."""
    users = directory / "users"
    users.write_text(f"{USER}:{hashes.make(PASSWORD.encode(), hashes.Costs(8, 1))}\n")
    users.chmod(0o600)
    (directory / "policy.csv").write_text(POLICY)
    return CONFIG


class Responder:
    """Answers every request that comes by MQTT, so that MQTT over HTTP has somebody to ask."""

    def __init__(self, port: int) -> None:
        self._client = client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, "pump", protocol=mqtt.MQTTv5
        )
        client.on_connect = lambda *_: client.subscribe("#", 1)
        client.on_message = self._answer
        self._ready = threading.Event()
        client.on_subscribe = lambda *_: self._ready.set()
        client.connect("127.0.0.1", port)
        client.loop_start()
        assert self._ready.wait(PATIENCE_S), "the client has not subscribed"

    def _answer(self, client: mqtt.Client, _: object, message: mqtt.MQTTMessage) -> None:
        asked = message.properties
        topic = getattr(asked, "ResponseTopic", "")
        if not topic or topic == message.topic:
            return
        answer = Properties(PacketTypes.PUBLISH)
        data = getattr(asked, "CorrelationData", None)
        if data is not None:
            answer.CorrelationData = data
        client.publish(topic, message.payload, 0, properties=answer)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def populate(web: Web) -> Responder:
    """Somebody and something to ask about."""
    responder = Responder(web.broker.port)
    kept = Raw(("127.0.0.1", web.broker.port), 5)
    kept.connect("keeper")
    kept.send(p.publish("kept", b"1", retain=True, version=5))
    kept.ping()
    kept.close()
    web.local("POST", "/admin/v1/roles", {"name": "reader"})
    web.add_user("ann", "reader")
    return responder


class Outcome:
    def __init__(self, status: int, output: str, report: dict[str, Any]) -> None:
        self.status = status
        self.output = output
        self.report = report


def fuzz(web: Web, directory: Path, examples: int, seed: int, *more: str) -> Outcome:
    """Run it in a process of its own, in a directory where it may leave files."""
    report = directory / "report.json"
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("--config-file", str(SETTINGS)),
            *("run", f"http://127.0.0.1:{web.port}/admin/v1/openapi.json"),
            *("--auth", f"{USER}:{PASSWORD}"),
            *("--max-examples", str(examples)),
            *("--seed", str(seed)),
            *("--report", "json", "--report-json-path", str(report)),
            "--no-color",
            *more,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=directory,
        env={**environment(), "COLUMNS": "160"},
    )
    found = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(done.returncode, done.stdout, found)


def still_there(web: Web) -> str:
    """What is wrong with the broker, or with who has asked, afterwards; "": nothing."""
    if not web.broker.running:
        return "the broker has ended"
    reply = web.as_basic(USER).get("/admin/v1/session")
    if reply.status != 200:
        return f"the user has locked itself out: {reply}"
    return "Traceback" if "Traceback" in web.broker.log() else ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a regular expression for the path")
    parser.add_argument("--keep", default="", help="a directory for log and output")
    given, more = parser.parse_known_args()
    if given.only:
        more += ["--include-path-regex", given.only]
    directory = Path(tempfile.mkdtemp(prefix="mhub-"))
    broker = Broker(directory, '[[listeners]]\nname = "plain"\nport = 0\n' + prepare(directory))
    try:
        broker.start()
        web = Web(broker)
        responder = populate(web)
        done = fuzz(web, directory, given.examples, given.seed, *more)
        print("\n".join(line[:300] for line in done.output.splitlines()))
        wrong = still_there(web)
        if wrong:
            print(wrong)
        responder.close()
    finally:
        broker.kill()
        if given.keep:
            shutil.copytree(
                directory, given.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock")
            )
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else done.status


if __name__ == "__main__":
    sys.exit(main())
