"""Slots: what stays while they are walked through is seen exactly once."""

import random
from unittest import TestCase

from mhub.core.slots import Slots
from tests.core.world import World
from tests.helpers import packets as p


class SlotTests(TestCase):
    def test_a_free_slot_is_used_again(self) -> None:
        slots: Slots[str] = Slots()
        self.assertEqual([slots.add(name, name) for name in "abc"], [0, 1, 2])
        slots.remove(1)
        self.assertEqual((slots.items, len(slots)), (["a", None, "c"], 2))
        self.assertEqual((slots.add("d", "d"), slots.add("e", "e")), (1, 3))
        self.assertEqual(slots.names, ["a", "d", "c", "e"])
        slots.replace(0, "f")
        self.assertEqual((slots.items, len(slots)), (["f", "d", "c", "e"], 4))

    def test_what_stays_is_seen_once(self) -> None:
        for seed in range(100):
            chance = random.Random(seed)
            slots: Slots[int] = Slots()
            slot_of = {name: slots.add(name, str(name)) for name in range(chance.randrange(1, 200))}
            staying = set(slot_of)
            seen: list[int] = []
            index, name = 0, len(slot_of)
            while index < len(slots.items):
                portion = slots.items[index : index + chance.randrange(1, 30)]
                index += len(portion)
                seen += [each for each in portion if each is not None]
                for _ in range(chance.randrange(20)):
                    if slot_of and chance.random() < 0.5:
                        gone = chance.choice(list(slot_of))
                        slots.remove(slot_of.pop(gone))
                        staying.discard(gone)
                    else:
                        slot_of[name] = slots.add(name, str(name))
                        name += 1
            self.assertEqual(sorted(each for each in seen if each in staying), sorted(staying))
            self.assertEqual(len(slots), len(slot_of))


class HubTests(TestCase):
    """The hub's, the router's and the retained messages' slots have what these have."""

    def setUp(self) -> None:
        self.world = World(sys_interval_s=0)

    def check(self) -> None:
        hub = self.world.hub
        sessions = [each for each in hub.slots.items if each is not None]
        self.assertEqual({each.client_id: each for each in sessions}, hub.sessions)
        for session in sessions:
            self.assertIs(hub.slots.items[session.hub_slot], session)
        names = [each.client_id if each is not None else "" for each in hub.slots.items]
        self.assertEqual(hub.slots.names, names)
        for slot, each in enumerate(hub.router.slots.items):
            name = hub.router.slots.names[slot]
            self.assertEqual(name, each.topic_filter if each is not None else "")
            if each is not None:
                self.assertEqual(hub.router.owners[slot], each.session.client_id)
        known = [sub for each in sessions for sub in each.subscriptions.values()]
        found = [each for each in hub.router.slots.items if each is not None]
        self.assertEqual(len(found), len(known))
        self.assertEqual(set(found), set(known))
        self.assertEqual(len(found), hub.router.subscriptions)
        kept = [each for each in hub.retained.slots.items if each is not None]
        self.assertEqual(len(kept), len(hub.retained))
        for message in kept:
            self.assertIs(hub.retained.tree.get(message.topic), message)

    def test_any_history(self) -> None:
        for seed in range(20):
            self.setUp()
            chance = random.Random(seed)
            for _ in range(100):
                client = self.world.client(
                    f"c{chance.randrange(8)}", 4, clean=chance.random() < 0.4
                )
                for _ in range(chance.randrange(4)):
                    n = chance.randrange(6)
                    share = chance.choice(("", "", "$share/g/", "$share/h/"))
                    if chance.random() < 0.7:
                        client.subscribe(f"{share}t/{n}", chance.randrange(3))
                    else:
                        client.send(p.unsubscribe(9, f"{share}t/{n}"))
                        client.next("UNSUBACK")
                payload = chance.choice((b"", b"x", b"y"))
                client.publish(f"r/{chance.randrange(5)}", payload, 0, retain=True)
                if chance.random() < 0.6:
                    client.lose()
                self.check()

    def test_another_mount_point(self) -> None:
        client = self.world.client("a", limits={"mount_point": "m/"}, clean=False)
        client.subscribe("$share/g/t")
        client.subscribe("u")
        client.lose()
        self.world.client("a", limits={"mount_point": "n/"}, clean=False)
        self.check()
        self.assertEqual(
            sorted(each.topic_filter for each in self.world.hub.router.slots.items if each),
            ["n/t", "n/u"],
        )
