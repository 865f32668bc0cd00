"""Which Unix user is at the other end of a Unix socket."""

import os
import pwd
import socket
from pathlib import Path

from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from mhub.web.peer import peer_name, user_name


class Transport:
    def __init__(self, handle: object) -> None:
        self._handle = handle

    def getHandle(self) -> object:
        return self._handle


class PeerTests(SynchronousTestCase):
    def test_the_user_of_this_process(self) -> None:
        ours, other = socket.socketpair(socket.AF_UNIX)
        self.addCleanup(ours.close)
        self.addCleanup(other.close)
        self.assertEqual(peer_name(Transport(ours)), pwd.getpwuid(os.geteuid()).pw_name)

    def test_a_transport_that_is_no_socket(self) -> None:
        for transport in (StringTransport(), Transport(None), object()):
            self.assertEqual(peer_name(transport), "")

    def test_names(self) -> None:
        file = Path(self.mktemp())
        file.write_text("root:x:0:0::/:/bin/sh\nbroken\n\nann:x:1000:1000:Ann:/home/ann:\n")
        for uid, name in ((0, "root"), (1000, "ann"), (7, "7")):
            self.assertEqual(user_name(uid, str(file)), name)
        self.assertEqual(user_name(1000, "/nowhere/passwd"), "1000")
