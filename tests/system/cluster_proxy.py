"""A real HAProxy in front of all nodes: clients go in turn to those that answer."""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest import SkipTest

from tests.system.raw import Address

CONFIG = """
defaults
 mode tcp
 timeout connect 2s
 timeout client 60s
 timeout server 60s
 retries 3
 option redispatch
listen mqtt
 bind fd@{fd}
 balance roundrobin
 default-server send-proxy-v2 check check-send-proxy inter 200ms fall 2 rise 1 \
 on-marked-down shutdown-sessions
"""


class Haproxy:
    """`nodes` are host names by the names of nodes; all of them listen at `port`."""

    def __init__(self, directory: Path, nodes: Mapping[str, str], port: int) -> None:
        program = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if program is None:
            raise SkipTest("haproxy is not there: install haproxy")
        # It inherits its listener, so that is there before it is.
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        config = directory / "haproxy.cfg"
        servers = "".join(f" server {name} {host}:{port}\n" for name, host in nodes.items())
        config.write_text(CONFIG.format(fd=self._listener.fileno()) + servers)
        self._process = subprocess.Popen(
            [program, "-db", "-q", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._listener.fileno(),),
        )

    @property
    def address(self) -> Address:
        host, port = self._listener.getsockname()
        return host, port

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.close()
