"""Who may wait at the peer port, who has to go for whom, and how long who guesses has to wait."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.strangers import FORGIVEN_S, REMEMBERED, Strangers, networks


class Caller:
    def __init__(self, name: str) -> None:
        self.name = name
        self.has_spoken = False
        self.is_held = False

    def __repr__(self) -> str:
        return self.name


class StrangerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.strangers = Strangers(4, 2, 4.0)
        self.now = 100.0

    def comes(self, address: str, name: str = "") -> Caller:
        caller = Caller(name or address)
        self.assertEqual(self.strangers.comes(caller, address, self.now), [])
        return caller

    def takes(self, address: str, victim: Caller | None) -> None:
        expected = None if victim is None else [victim]
        self.assertEqual(self.strangers.comes(Caller("new"), address, self.now), expected)


class PlaceTests(StrangerCase):
    def test_the_oldest_goes_when_all_places_are_taken(self) -> None:
        callers = [self.comes(f"192.0.2.{n}") for n in range(4)]
        self.takes("192.0.2.9", callers[0])
        self.takes("192.0.2.10", callers[1])
        self.assertEqual((len(self.strangers), self.strangers.evicted), (4, 2))

    def test_who_has_begun_to_log_in_stays_longer(self) -> None:
        callers = [self.comes(f"192.0.2.{n}") for n in range(4)]
        for caller in callers[:3]:
            caller.has_spoken = True
        self.takes("192.0.2.9", callers[3])

    def test_who_waits_for_an_answer_goes_for_other_addresses(self) -> None:
        """Else wrong proofs from some addresses would take all places."""
        callers = [self.comes(f"192.0.2.{n}") for n in range(4)]
        for caller in callers:
            caller.has_spoken = True
        callers[2].is_held = True
        self.takes("192.0.2.9", callers[2])

    def test_one_address_has_a_share_of_them(self) -> None:
        first = self.comes("192.0.2.1")
        self.comes("192.0.2.1")
        self.takes("192.0.2.1", first)
        self.comes("192.0.2.2")

    def test_a_wrong_proof_takes_a_place_of_its_address_for_a_while(self) -> None:
        """Whether it waits for the answer or not."""
        for waits in (False, True):
            caller = self.comes("192.0.2.1")
            caller.has_spoken = caller.is_held = True
            self.strangers.fails("192.0.2.1", self.now)
            if not waits:
                self.strangers.leaves(caller)
        self.takes("192.0.2.1", None)
        self.comes("192.0.2.2")
        self.assertEqual(self.strangers.rejected, 1)
        self.now += 1.0  # the first is over
        other = self.comes("192.0.2.1")
        self.takes("192.0.2.1", other)

    def test_known_addresses_have_places_of_their_own(self) -> None:
        self.strangers.met("198.51.100.1")
        self.strangers.listed = networks(["198.51.100.2", "node-c.example.org", ""])
        callers = [self.comes(f"192.0.2.{n}") for n in range(4)]
        nodes = [self.comes(f"198.51.100.{n}") for n in (1, 1, 2, 2)]
        self.takes("198.51.100.2", nodes[2])
        self.takes("192.0.2.9", callers[0])

    def test_who_is_gone_or_has_logged_in_takes_no_place(self) -> None:
        callers = [self.comes(f"192.0.2.{n}") for n in range(4)]
        self.strangers.leaves(callers[1])
        self.strangers.leaves(callers[1])
        self.comes("192.0.2.9")
        self.takes("192.0.2.10", callers[0])

    def test_a_network_of_ipv6_is_one_address(self) -> None:
        first = self.comes("2001:db8::1")
        self.comes("2001:db8::2")
        self.takes("2001:db8::3", first)
        self.comes("2001:db8:0:1::1")
        self.setUp()
        first = self.comes("::ffff:192.0.2.1")
        self.comes("192.0.2.1")
        self.takes("::ffff:192.0.2.1", first)


class WrongProofTests(StrangerCase):
    def test_each_waits_longer_up_to_the_longest(self) -> None:
        found = [self.strangers.fails("192.0.2.1", 100.0 + n) for n in range(5)]
        self.assertEqual(found, [(1.0, 1), (2.0, 2), (4.0, 3), (4.0, 4), (4.0, 5)])
        self.assertEqual(self.strangers.fails("192.0.2.2", 105.0), (1.0, 1))
        self.assertEqual(self.strangers.wrong_proofs, 6)

    def test_a_right_one_or_a_long_time_ends_it(self) -> None:
        self.strangers.fails("192.0.2.1", 100.0)
        self.strangers.met("192.0.2.1")
        self.assertEqual(self.strangers.fails("192.0.2.1", 101.0), (1.0, 1))
        self.assertEqual(self.strangers.fails("192.0.2.1", 102.0 + FORGIVEN_S), (1.0, 1))

    def test_a_bounded_number_of_addresses_is_remembered(self) -> None:
        for n in range(REMEMBERED + 100):
            self.strangers.fails(f"10.0.{n // 256}.{n % 256}", 100.0)
            self.strangers.met(f"10.1.{n // 256}.{n % 256}")
        self.assertEqual(len(self.strangers._failures), REMEMBERED)
        self.assertEqual(len(self.strangers._known), REMEMBERED)
