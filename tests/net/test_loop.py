"""The socket loop: pacing, bounds, partial writes, last words, and whatever the system says."""

import errno
import os
import select
import socket
import struct
import tempfile

from mhub.core.delivery import Subscription
from mhub.core.limits import Limits
from mhub.net.layers import WebSocketLayer
from mhub.net.loop import (
    ACCEPT_PAUSE_S,
    EVENTS_PER_TURN,
    HANDSHAKES,
    HANDSHAKES_S,
    IN,
    LINGER_S,
    OUT,
    READ_SIZE,
    Acceptor,
)
from mhub.wire.publish import Publish
from tests.helpers import packets as p
from tests.helpers import websocket
from tests.helpers.packets import Prop
from tests.net.loop_case import Case


class Accepting(Case):
    def test_a_few_a_turn(self) -> None:
        """A storm of connections does not stall those that are there."""
        live = self.client("live")
        self.loop.accepts_per_turn = 8
        storm = [self.dial() for _ in range(50)]
        for turn in range(1, 6):
            live.send(p.pingreq())
            self.land()
            self.loop.turn()
            self.assertEqual(len(self.loop.links), 1 + 8 * turn)
            self.assertEqual(self.hear(live, 10), b"\xd0\0")
        self.until(lambda: len(self.loop.links) == 51)
        self.assertEqual(self.hub.stats.connections_open, 51)
        for sock in storm:
            sock.close()
        self.until(lambda: len(self.loop.links) == 1)
        self.assertEqual(self.hub.stats.connections_open, 1)

    def test_a_few_handshakes_a_turn(self) -> None:
        """Those who are not connected yet do not stand before those who are."""
        live = self.client("live")
        storm = [self.dial() for _ in range(40)]
        self.until(lambda: len(self.loop.links) == 41)
        self.loop.accepts_per_turn = 8
        for number, sock in enumerate(storm):
            sock.send(p.connect(f"c{number}"))
        for turn in range(1, 5):
            live.send(p.pingreq())
            self.land()
            self.loop.turn()
            self.assertEqual(self.hub.connected, 1 + 8 * turn)
            self.assertEqual(self.hear(live, 10), b"\xd0\0")
        for sock in storm:
            self.receive(sock, 4)
            self.ping(sock)

    def test_handshakes_that_take_long_do_not_stand_before_others(self) -> None:
        """Nor before those who are to be accepted, whose time begins then."""
        clock = self.clock

        class Slow:
            """A layer whose handshake takes 3 ms of each byte's."""

            def receive(self, data: bytes) -> bytes:
                clock.now += 0.003 * len(data)
                return b""

            def replies(self) -> bytes:
                return b""

            def send(self, data: bytes) -> bytes:
                return data

            def close(self) -> bytes:
                return b""

            def introduce(self, connection: object) -> None:
                pass

        live = self.client("live")
        self.acceptor.layers = lambda: [Slow()]
        storm = [self.dial() for _ in range(32)]
        self.until(lambda: len(self.loop.links) == 33)
        for sock in storm:
            sock.send(b"x")
        late = [self.dial() for _ in range(16)]
        live.send(p.pingreq())
        self.land()
        began = self.clock.now
        self.loop.turn()
        self.assertEqual(self.hear(live, 10), b"\xd0\0")
        self.assertLessEqual(self.clock.now - began, HANDSHAKES_S + HANDSHAKES * 0.003 + 1e-6)
        self.assertEqual(len(self.loop.links), 33 + len(late))
        self.until(lambda: self.clock.now - began >= 32 * 0.003 - 1e-6, "all have their turn")

    def test_the_limit_of_a_listener(self) -> None:
        self.acceptor.max_connections = 2
        first, _ = self.client("a"), self.client("b")
        third = self.dial()
        self.assertEqual(self.rest(third), b"")
        self.assertEqual(len(self.reports("rejected")), 1)
        self.assertEqual(self.hub.stats.connections_rejected, 1)
        first.close()
        self.until(lambda: self.acceptor.connections == 1)
        self.client("d")

    def test_the_limit_of_all_listeners(self) -> None:
        self.loop.max_connections = 1
        self.client("a")
        self.assertEqual(self.rest(self.dial()), b"")

    def test_no_descriptors_left(self) -> None:
        """Nobody is accepted for a while; those who are there do not notice, nobody is lost."""
        live = self.client("live")
        self.listener.problem = OSError(errno.EMFILE, "Too many open files")
        late = self.dial()
        self.land()
        self.loop.turn()
        self.assertEqual(self.reports("accept_failed")[0][2], "Too many open files")
        for _ in range(5):  # no busy loop: the listener is not asked again
            self.loop.turn()
            self.assertFalse(self.loop.epoll.poll(0))
        self.assertEqual(len(self.reports("accept_failed")), 1)
        self.ping(live)
        self.clock.now += ACCEPT_PAUSE_S + 0.1
        self.loop.tick()
        self.loop.turn()
        self.assertEqual(len(self.reports("accept_failed")), 2)
        self.listener.problem = None
        self.clock.now += ACCEPT_PAUSE_S + 0.1
        self.loop.tick()
        late.send(p.connect("late"))
        self.assertEqual(self.receive(late, 4), b"\x20\x02\0\0")

    def test_closed_while_paused(self) -> None:
        self.listener.problem = OSError(errno.ENFILE, "Too many open files in system")
        self.dial()
        self.land()
        self.loop.turn()
        self.loop.stop_listening()
        self.clock.now += ACCEPT_PAUSE_S + 0.1
        self.loop.tick()
        self.assertEqual(self.loop.paused, [])

    def test_one_that_gave_up_before_it_was_accepted(self) -> None:
        self.listener.problem = OSError(errno.ECONNABORTED, "Software caused connection abort")
        self.dial()
        self.land()
        self.loop.turn()
        self.assertEqual(self.reports("accept_failed"), [])
        self.listener.problem = None
        self.until(lambda: len(self.loop.links) == 1)

    def test_unix_sockets(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "mqtt")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
            listener.setblocking(False)
            self.loop.listen(Acceptor("unix", listener, Limits()))
            sock = socket.socket(socket.AF_UNIX)
            self.addCleanup(sock.close)
            sock.connect(path)
            sock.setblocking(False)
            sock.send(p.connect("c"))
            self.assertEqual(self.receive(sock, 4), b"\x20\x02\0\0")
            link = self.link("c")
            principal = link.connection.principal
            self.assertEqual((principal.address, principal.listener), ("local", "unix"))

    def test_nobody_after_the_listeners_closed(self) -> None:
        live = self.client("live")
        address = self.listener.getsockname()
        self.loop.stop_listening()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(address)
        self.ping(live)


class Strangers(Case):
    def test_closed_at_once(self) -> None:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0", b"\xff", p.pingreq()):
            sock = self.dial()
            sock.send(data)
            try:
                self.assertEqual(self.rest(sock), b"")
            except ConnectionResetError:
                pass  # what it had sent besides was not read
            self.assertEqual(self.reports("stranger")[-1], ("stranger", "test", data.hex()))
        self.assertEqual(self.hub.stats.connections_rejected, 4)
        self.assertEqual((self.loop.links, self.acceptor.connections), ({}, 0))
        self.assertEqual(self.hub.wheel.slots, {})

    def test_a_slow_connect_is_no_stranger(self) -> None:
        sock = self.dial()
        for byte in p.connect("c"):
            sock.send(bytes([byte]))
            self.quiet()
        self.assertEqual(self.receive(sock, 4), b"\x20\x02\0\0")


class Reading(Case):
    def test_one_byte_at_a_time(self) -> None:
        """Each byte in a packet of its own; what they say together is understood."""
        subscriber = self.client("subscriber")
        self.subscribe(subscriber, "t")
        dripping = self.client("dripping")
        for byte in p.publish("t", b"drop by drop", 1, 7) + p.pingreq():
            dripping.send(bytes([byte]))
            self.quiet()
        self.assertEqual(self.receive(dripping, 6), b"\x40\x02\0\x07\xd0\0")
        expected = p.publish("t", b"drop by drop")
        self.assertEqual(self.receive(subscriber, len(expected)), expected)

    def test_bounded_work_for_one_socket_a_turn(self) -> None:
        """A client that sends without end gets one read a turn, like everybody else."""
        flood = self.client("flood")
        calm = self.client("calm")
        data = p.publish("t", bytes(1000)) * 2000
        sent = 0
        for _ in range(20):
            try:
                sent += flood.send(data[sent : sent + (1 << 20)])
            except BlockingIOError:
                pass
            calm.send(p.pingreq())
            self.land()
            before = self.hub.stats.bytes_received
            self.loop.turn()
            self.assertLessEqual(self.hub.stats.bytes_received - before, READ_SIZE + 2)
            self.assertEqual(self.hear(calm, 10), b"\xd0\0")

    def test_more_ready_sockets_than_a_turn_takes(self) -> None:
        count = EVENTS_PER_TURN + 40
        clients = [self.client(f"c{number}") for number in range(count)]
        self.quiet()
        for sock in clients:
            sock.send(p.pingreq())
        self.land()
        self.assertTrue(self.loop.turn(), "there is more to do")
        self.loop.turn()
        self.assertEqual([self.hear(sock, 10) for sock in clients], [b"\xd0\0"] * count)

    def test_a_turn_says_whether_more_is_to_do(self) -> None:
        self.start(work_per_turn=10)
        self.subscribe(self.client("subscriber"), "t")
        busy = self.client("busy")
        self.quiet()
        self.assertFalse(self.loop.turn())
        busy.send(p.publish("t", b"x") * 100)
        self.until(lambda: self.hub.stats.publish_received > 0)
        self.assertTrue(self.hub.unfinished)
        turns = 0
        while self.loop.turn():
            turns += 1
        self.assertEqual((self.hub.stats.publish_received, turns > 3), (100, True))

    def test_the_peer_closes(self) -> None:
        watcher = self.client("watcher")
        self.subscribe(watcher, "will")
        expected = p.publish("will", b"gone")
        for how in ("close", "half", "reset"):
            sock = self.client("c", will=("will", b"gone"))
            if how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how == "half":
                sock.shutdown(socket.SHUT_WR)
            else:
                sock.close()
            self.assertEqual(self.receive(watcher, len(expected)), expected)
        self.assertEqual(len(self.loop.links), 1)

    def test_what_came_before_the_close_counts(self) -> None:
        watcher = self.client("watcher")
        self.subscribe(watcher, "#")
        sock = self.client("c")
        sock.send(p.publish("t", b"last"))
        sock.close()
        expected = p.publish("t", b"last")
        self.assertEqual(self.receive(watcher, len(expected)), expected)


class Writing(Case):
    def setUp(self) -> None:
        self.start(max_queued_bytes=1 << 20, max_queued_messages=0)

    def test_a_write_that_the_socket_takes_in_parts(self) -> None:
        slow = self.client("slow")
        self.subscribe(slow, "t")
        publisher = self.client("publisher")
        payload = os.urandom(1_000_000)
        packet = p.publish("t", payload)
        rest = memoryview(packet)

        def sent() -> bool:
            nonlocal rest
            try:
                rest = rest[publisher.send(rest[: 1 << 20]) :]
            except BlockingIOError:
                pass
            return not rest

        self.until(sent)
        self.quiet()
        link = self.link("slow")
        self.assertTrue(link.unsent and link.mask & OUT)
        self.assertEqual(self.receive(slow, len(packet)), packet)
        self.quiet()
        self.assertEqual((link.unsent, link.mask), (b"", IN))
        self.ping(slow)

    def test_a_slow_reader_costs_bounded_memory(self) -> None:
        """Its queue and one turn's output at most; its publisher and others go on at full speed."""
        slow, fast = self.client("slow"), self.client("fast")
        for sock in (slow, fast):
            self.subscribe(sock, "t")
        publisher = self.client("publisher")
        packet = p.publish("t", bytes(10_000))
        for _ in range(1000):
            publisher.send(packet)
            self.receive(fast, len(packet))
        link, session = self.link("slow"), self.hub.sessions["slow"]
        self.assertLessEqual(session.queue.size_bytes, 1 << 20)
        self.assertLessEqual(len(link.unsent), 2 << 20)
        self.assertGreater(self.hub.stats.dropped_queue_full, 100)
        self.assertLessEqual(sum(map(len, link.connection.out)), 2 << 20)

    def test_it_gets_what_was_kept_in_order(self) -> None:
        slow = self.client("slow")
        self.subscribe(slow, "t")
        publisher = self.client("publisher")
        size = 9000
        for number in range(900):
            publisher.send(p.publish("t", b"%08d" % number + bytes(size)))
            self.loop.turn()
        self.quiet()
        dropped = self.hub.stats.dropped_queue_full
        self.assertGreater(dropped, 0)
        length = len(p.publish("t", bytes(size + 8)))
        seen = [int(self.receive(slow, length)[6:14]) for _ in range(900 - dropped)]
        self.assertEqual(seen, sorted(seen))
        self.ping(slow)

    def test_replies_that_nobody_reads(self) -> None:
        """Beyond a bound nothing more is read from such a client: TCP pushes back."""
        sock = self.client("c")
        link = self.link("c")

        def bounded() -> None:
            held = len(link.unsent) + sum(map(len, link.connection.out))
            self.assertLess(held, 1 << 20)

        sent = self.flood(sock, p.pingreq(), bounded)
        self.assertFalse(link.mask & IN)
        self.receive(sock, sent // 2 * 2)
        self.assertTrue(link.mask & IN)

    def test_control_frames_that_nobody_reads(self) -> None:
        """The same for what a layer answers by itself: WebSocket pings."""
        self.acceptor.layers = lambda: [WebSocketLayer("/mqtt", (), 8192)]
        sock = self.dial()
        sock.send(websocket.request())
        self.until(lambda: len(self.loop.links) == 1)
        self.quiet()
        (link,) = self.loop.links.values()
        ping = b"\x89\xfd" + bytes(4) + bytes(125)
        self.flood(sock, ping, lambda: self.assertLess(len(link.unsent), 1 << 20))
        self.assertFalse(link.mask & IN or link.closing)


class Closing(Case):
    def test_last_words_are_heard_behind_unread_input(self) -> None:
        """A plain close would be a reset that overtakes the DISCONNECT."""
        sock = self.client("c", 5)
        sock.send(p.frame(0x30, b"?") + bytes(300_000))
        self.quiet()
        sock.send(bytes(100_000))
        words = self.rest(sock)
        self.assertEqual(p.decode(*p.split(words), 5).reason, 0x81)

    def test_a_refusal_is_heard_behind_unread_input(self) -> None:
        self.start(allow_anonymous=False)
        sock = self.dial()
        sock.send(p.connect("c", 4) + bytes(200_000))
        self.assertEqual(self.rest(sock), b"\x20\x02\0\x05")

    def test_until_the_peer_closes(self) -> None:
        sock = self.client("c", 5)
        sock.send(b"\xff\0")
        self.rest(sock)
        self.assertEqual(len(self.loop.lingering), 1)
        sock.close()
        self.until(lambda: not self.loop.links)
        self.assertEqual(self.loop.lingering, {})

    def test_but_not_for_ever(self) -> None:
        sock = self.client("c", 5)
        sock.send(b"\xff\0")
        self.rest(sock)
        self.clock.now += LINGER_S - 0.1
        self.loop.tick()
        self.assertEqual(len(self.loop.links), 1)
        self.clock.now += 0.2
        self.loop.tick()
        self.assertEqual((self.loop.links, self.loop.lingering), ({}, {}))
        self.assertEqual(self.acceptor.connections, 0)

    def test_not_for_ever_while_it_does_not_read(self) -> None:
        """It has to go for silence, and does not take what is written to it either."""
        slow = self.client("slow", 5, keepalive=10)
        slow.send(p.subscribe(1, ("t", 0), version=5))
        self.quiet()
        publisher = self.client("publisher")
        for _ in range(400):
            publisher.send(p.publish("t", bytes(10_000)))
            self.loop.turn()
        self.quiet()
        self.assertTrue(self.link("slow").unsent)
        for _ in range(40):
            self.clock.now += 0.5
            self.ping(publisher)
            self.loop.tick()
        self.assertEqual(len(self.loop.links), 1)

    def test_nothing_is_written_after_last_words(self) -> None:
        sock = self.client("c", 5)
        self.subscribe_v5(sock, "t")
        sock.send(p.disconnect(0x8E))  # not for clients to say
        other = self.client("other")
        other.send(p.publish("t", b"late"))
        self.ping(other)
        words = self.rest(sock)
        self.assertEqual(p.decode(*p.split(words), 5).type, "DISCONNECT")

    def subscribe_v5(self, sock: socket.socket, topic_filter: str) -> None:
        sock.send(p.subscribe(1, (topic_filter, 0), version=5))
        self.receive(sock, 6)

    def test_shut_down(self) -> None:
        five, four = self.client("five", 5), self.client("four")
        self.hub.shut_down(self.clock.now)
        self.assertEqual(p.decode(*p.split(self.rest(five)), 5).reason, 0x8B)
        self.assertEqual(self.rest(four), b"")

    def test_close_drops_what_is_left(self) -> None:
        socks = [self.client("c"), self.dial()]
        self.quiet()
        self.loop.close()
        self.assertEqual((self.loop.links, self.acceptor.connections), ({}, 0))
        for sock in socks:
            self.assertEqual(self.hear(sock, 10), b"")
        self.loop.epoll = select.epoll()  # for the clean-up


class Descriptors(Case):
    def test_they_are_used_again(self) -> None:
        fds = set()
        for number in range(100):
            sock = self.client(f"c{number}")
            fds.add(self.link(f"c{number}").fd)
            sock.close()
            self.until(lambda: not self.loop.links)
        self.assertLessEqual(len(fds), 3)

    def test_an_event_of_a_descriptor_that_is_somebody_elses_now(self) -> None:
        """One batch of events: A takes over B's session, which closes B; C is accepted and gets
        B's descriptor; then B's event comes up."""
        victim = self.client("victim")
        fd = self.link("victim").fd
        thief = self.dial()
        self.until(lambda: len(self.loop.links) == 2)
        self.quiet()  # events come in the order in which their sockets become ready
        thief.send(p.connect("victim"))
        self.land()
        newcomer = self.dial()
        self.land()
        victim.send(p.pingreq())
        self.land()
        self.loop.turn()
        newcomer.send(p.connect("newcomer"))
        self.assertEqual(self.receive(newcomer, 4), b"\x20\x02\0\0")
        self.assertEqual(self.link("newcomer").fd, fd)
        self.ping(newcomer)
        self.assertEqual(self.receive(thief, 4)[:2], b"\x20\x02")
        self.ping(thief)


class Defects(Case):
    def test_one_connection_only(self) -> None:
        """An exception that should not be closes the connection that it hit, and is reported."""
        live = self.client("live")

        class Broken:
            """A session's intake, which may be anything."""

            def admits(self, message: Publish, qos: int, subscription: Subscription) -> bool:
                raise RuntimeError("a defect")

        unlucky = self.client("unlucky")
        self.hub.sessions["unlucky"].intake = Broken()
        unlucky.send(p.subscribe(1, ("t", 0)) + p.publish("t", b"x"))
        self.rest(unlucky)
        self.assertIsInstance(self.reports("crashed")[0][2], RuntimeError)
        self.ping(live)
        self.assertEqual(len(self.loop.links), 1)
        self.ping(self.client("next"))


class Serving(Case):
    """Turn after turn, while whoever else waits for this thread does not need it."""

    def pipe(self) -> int:
        """What somebody else is called by."""
        reader, writer = os.pipe()
        for fd in (reader, writer):
            self.addCleanup(os.close, fd)
        self.loop.watch(reader)
        return writer

    def test_until_somebody_else_is_called(self) -> None:
        writer = self.pipe()
        sock = self.client("c")
        sock.send(p.pingreq())
        os.write(writer, b"!")
        self.land()
        self.loop.serve(lambda: None)
        self.assertEqual(self.hear(sock, 10), b"\xd0\0")
        self.loop.serve(lambda: None)  # it was not read, and calls again

    def test_until_somebody_elses_timer_is_due(self) -> None:
        self.pipe()
        sock = self.client("c")
        sock.send(p.pingreq())
        self.land()
        self.loop.serve(lambda: 0.02)
        self.assertEqual(self.hear(sock, 10), b"\xd0\0")

    def test_what_is_put_off_is_done_in_the_same_go(self) -> None:
        self.start(work_per_turn=10)
        self.subscribe(self.client("subscriber"), "t")
        busy = self.client("busy")
        busy.send(p.publish("t", b"x") * 100)
        self.land()
        self.pipe()
        self.loop.serve(lambda: 0.02)
        self.assertEqual((self.hub.stats.publish_received, self.hub.unfinished), (100, []))

    def test_a_busy_loop_still_keeps_others_times(self) -> None:
        """With work to do all the time, one more turn is made when a timer is due, and no more."""
        self.start(work_per_turn=1)
        self.subscribe(self.client("subscriber"), "t")
        busy = self.client("busy")
        busy.send(p.publish("t", b"x") * 1000)
        self.land()
        self.pipe()
        self.loop.serve(lambda: 0.0)
        self.assertLess(self.hub.stats.publish_received, 10)


class Time(Case):
    def test_ticks_run_the_hub(self) -> None:
        sock = self.client("c", 5, keepalive=10)
        silent = self.dial()
        self.until(lambda: len(self.loop.links) == 2)
        self.clock.now += 10.5
        self.loop.tick()
        self.assertEqual(self.rest(silent), b"")
        self.clock.now += 5
        self.loop.tick()
        self.assertEqual(p.decode(*p.split(self.rest(sock)), 5).reason, 0x8D)

    def test_expiry_is_rewritten_by_this_clock(self) -> None:
        sock = self.client("c", 5)
        props = [(Prop.MESSAGE_EXPIRY, 60)]
        sock.send(p.publish("t", b"x", retain=True, props=props, version=5))
        self.quiet()
        self.clock.now += 20
        sock.send(p.subscribe(1, ("t", 0), version=5))
        self.receive(sock, 6)
        packet = p.decode(*p.split(self.receive(sock, 2 + 3 + 6 + 1)), 5)
        self.assertEqual(packet.prop(Prop.MESSAGE_EXPIRY), 40)
