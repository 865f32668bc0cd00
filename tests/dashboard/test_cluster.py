"""Nodes that die while the page is open, and come back."""

import socket
from pathlib import Path

from playwright.sync_api import expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import CONFIG, DashboardCase, admin_port, log_in
from tests.system.case import place
from tests.system.paho import V5, Paho
from tests.system.process import Broker

expect.set_options(timeout=PATIENCE_MS)

CLUSTER = """
[cluster]
name = "plant"
node = "{node}"
port = {port}
peers = ["127.0.0.1:{ports[0]}", "127.0.0.1:{ports[1]}"]
secret_file = "secret"
"""


def free_ports(count: int) -> list[int]:
    """Ports that a node has again when it is started anew."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


class OwnNodeTests(DashboardCase):
    def setUp(self) -> None:
        port = free_ports(1)[0]
        self.config = CONFIG.replace("[admin]\nport = 0", f"[admin]\nport = {port}")
        super().setUp()

    def test_it_dies_and_comes_back(self) -> None:
        """A banner says so; then one is where one was, after a login."""
        window = self.window()
        page = self.login(window, "#/clients")
        banner = page.locator(".banner.bad")
        expect(page.locator(".state")).to_have_text("running")
        self.broker.kill()
        expect(banner).to_contain_text("has not answered")
        expect(page.locator(".state")).to_have_text("no connection")
        picture(page, "broker-died")
        self.restart(self.broker)
        admin_port(self.broker)
        # Sessions are in the memory of a node.
        log_in(page)
        expect(page.get_by_role("heading", level=1)).to_have_text("Clients")
        expect(page.locator(".state")).to_have_text("running")
        expect(banner).to_have_count(0)
        window.check(page)


class ClusterTests(DashboardCase):
    def setUp(self) -> None:
        self.ports = free_ports(2)
        self.config = CONFIG + CLUSTER.format(node="a", port=self.ports[0], ports=self.ports)
        super().setUp()
        other = place(self)
        config = CONFIG.replace("[admin]\nport = 0", "[admin]\nenabled = false")
        config += CLUSTER.format(node="b", port=self.ports[1], ports=self.ports)
        self.other = self.start_node(other, config)

    def start_node(self, directory: Path, config: str) -> Broker:
        (directory / "secret").write_text("0123456789abcdef0123456789abcdef")
        (directory / "secret").chmod(0o600)
        return super().start_node(directory, config)

    def test_what_is_at_another_node(self) -> None:
        """Each row says where it is, and a trace that would see nothing says why."""
        here = self.client("here")
        here.subscribe("$share/workers/plant/a", 1)
        there = Paho(self, ("127.0.0.1", self.other.port), "there", V5)
        there.subscribe("$share/workers/plant/a", 1)
        there.subscribe("plant/#", 1)
        window = self.window()
        page = self.login(window, "#/subscriptions/routes?topic=plant/a")
        groups = page.get_by_role("region", name="Shared groups").locator("tbody tr")
        expect(groups).to_have_count(2)
        self.assertEqual([each[-1] for each in groups.all_inner_texts()], ["a", "b"])
        self.show(page, "client?id=there")
        trace = page.locator(".card", has=page.get_by_role("heading", name="Trace"))
        expect(trace).to_contain_text("The client is at node b")
        self.show(page, "client?id=here")
        expect(page.locator(".badge.ok").first).to_have_text("connected")
        expect(trace).not_to_contain_text("The client is at node")
        window.check(page)

    def test_another_node_dies_and_comes_back(self) -> None:
        client = self.client("pump")
        client.subscribe("plant/#", 1)
        window = self.window()
        page = self.login(window, "#/cluster")
        members = page.locator(".card", has_text="Other nodes").first
        expect(members.locator(".badge.ok")).to_have_text("up")
        links = page.locator(".card", has=page.get_by_role("heading", name="Links"))
        expect(links.locator("tbody tr")).to_have_count(2)
        expect(links).to_contain_text("ms")
        losses = page.locator(".card", has=page.get_by_role("heading", name="If a node were lost"))
        expect(losses).to_contain_text("1 client would have to connect to another node")
        expect(page.locator(".node")).to_have_text("node a")
        picture(page, "cluster")
        region = links.get_by_role("region")
        region.focus()
        self.other.kill()
        expect(page.locator(".banner.warn")).to_contain_text("Node b is")
        expect(members.locator(".badge.ok")).to_have_count(0)
        expect(region).to_be_focused()
        picture(page, "cluster-node-died")
        self.show(page, "overview")
        expect(page.locator(".banner.warn")).to_contain_text("Node b is")
        self.restart(self.other)
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.locator(".card", has_text="Other nodes").first).to_contain_text("1 of 1 linked")
        picture(page, "cluster-overview")
        window.check(page)
