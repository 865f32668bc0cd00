"""From the settings to a store."""

from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase

from mhub.config.cluster import ClusterSettings
from mhub.config.settings import STORES, Settings, StoreSettings
from mhub.store.make import make_shared, make_store


class MakeTests(SynchronousTestCase):
    def test_each_kind(self) -> None:
        for kind in STORES:
            store = make_store(Settings(store=StoreSettings(kind=kind)), reactor)
            self.assertTrue(store.name.lower().startswith(kind))

    def test_each_node_has_keys_of_its_own_in_a_shared_store(self) -> None:
        store = StoreSettings(kind="redis")
        self.assertTrue(store.is_shared)
        alone = make_store(Settings(store=store), reactor)
        self.assertTrue(alone.name.endswith(" keys mhub:*"), alone.name)
        node = make_shared(Settings(store=store, cluster=ClusterSettings(node="a")), reactor)
        self.assertTrue(node.name.endswith(" keys mhub:a:*"), node.name)
        other = node.beside("b", "a", lambda error: None)
        self.assertTrue(other.name.endswith(" keys mhub:b:*"), other.name)

    def test_a_file_is_shared_with_nobody(self) -> None:
        self.assertFalse(StoreSettings().is_shared)
        self.assertFalse(StoreSettings(kind="memory").is_shared)
