"""What tests of the numbers need of a broker's admin listener."""

import json
import re
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.system.process import Broker

OPEN = '[admin]\nport = 0\nmetrics = "open"\n'
"""An admin listener whose /metrics needs no login."""

_ADDRESS = re.compile(r"admin API and dashboard on (http://\S+)")


def admin_url(broker: Broker) -> str:
    broker.wait_for_log("admin API and dashboard on")
    found = _ADDRESS.search(broker.log())
    assert found is not None
    return found[1]


def get(url: str) -> tuple[int, Any]:
    """The status, and the JSON of the body."""
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)
