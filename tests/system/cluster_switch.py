"""What the links between nodes pass through: it can stop carrying, without closing anything.

A node that is apart looks as in a network that drops packets: what was sent is not there yet, new
connections get no answer, and nobody is told.  It needs no right that a user does not have, unlike
a packet filter or a network namespace.

Who calls is found by the system's own table of sockets, as all calls come from the same address.
"""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

LOOK_S = 0.01
PIECE = 65536


class Switch:
    """In front of each node an address 127.X.Y.1NN, which others use in the place of its own."""

    def __init__(self, net: str, port: int) -> None:
        self.pids: dict[int, str] = {}  # of nodes, those of the past too
        self._net = net
        self._port = port
        self._apart: set[str] = set()
        self._over = False
        self._listeners: list[socket.socket] = []

    def add(self, name: str, host: str) -> str:
        """Where others reach this node from now on."""
        address = (f"{self._net}.1{int(host.rpartition('.')[2]):02}", self._port)
        listener = socket.create_server(address)
        self._listeners.append(listener)
        self._start(self._accept, listener, name, (host, self._port))
        return f"{address[0]}:{address[1]}"

    def split(self, *names: str) -> None:
        """These nodes see each other, and the others see each other."""
        self._apart = set(names)

    def parts(self, one: str, other: str) -> bool:
        """Whether two nodes do not see each other."""
        return (one in self._apart) != (other in self._apart)

    def heal(self) -> None:
        self._apart = set()

    def close(self) -> None:
        self._over = True
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # which wakes who waits for a call
            listener.close()

    def _start(self, *call: object) -> None:
        threading.Thread(target=call[0], args=call[1:], daemon=True).start()  # type: ignore[arg-type]

    def _accept(self, listener: socket.socket, to: str, address: tuple[str, int]) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._start(self._connect, connection, to, address)

    def _connect(self, connection: socket.socket, to: str, address: tuple[str, int]) -> None:
        caller = _caller(connection, self.pids)
        with connection:
            try:
                self._wait(caller, to)
                onward = socket.create_connection(address)
            except OSError:
                return
            self._start(self._carry, onward, connection, to, caller)
            self._carry(connection, onward, caller, to)

    def _carry(self, source: socket.socket, to: socket.socket, sender: str, receiver: str) -> None:
        """All that comes, until one side hangs up."""
        try:
            while data := source.recv(PIECE):
                self._wait(sender, receiver)
                to.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            self._wait(sender, receiver)
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _wait(self, sender: str, receiver: str) -> None:
        """Until both are on the same side."""
        while self.parts(sender, receiver):
            if self._over:
                raise OSError("the switch is closed")
            time.sleep(LOOK_S)


def _caller(connection: socket.socket, pids: dict[int, str]) -> str:
    """The node that has made a connection; "": it is gone already."""
    ends = [connection.getpeername(), connection.getsockname()]
    wanted = [f"{_as_number(host)}:{port:04X}" for host, port in ends]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return _holder(f"socket:[{fields[9]}]", pids)
    return ""


def _as_number(host: str) -> str:
    """As /proc/net/tcp writes it: in the order of bytes that the machine has."""
    return f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}"


def _holder(link: str, pids: dict[int, str]) -> str:
    for pid, name in pids.items():
        try:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path) == link:
                        return name
        except OSError:
            continue  # that process is gone
    return ""
