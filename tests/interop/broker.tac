# mhub for Eclipse Paho's suites, which subscribe to test/nosubscribe and want to be refused.
# What a client may do is not a matter of the configuration, but of a port of the core: here is the
# smallest thing to fit it.  Start: MHUB_CONFIG=FILE twistd -n -y broker.tac

import os

from twisted.application.service import Application

from mhub.tap import Options, makeService
from mhub.wire.reasons import SUCCESS, UNSPECIFIED


class Refusing:
    def connect(self, principal: object) -> int:
        return SUCCESS

    def publish(self, principal: object, topic: str, qos: int, retain: bool) -> int:
        return SUCCESS

    def will(self, principal: object, topic: str, qos: int, retain: bool) -> int:
        return SUCCESS

    def subscribe(self, principal: object, topic_filter: str, qos: int, share: str) -> int:
        # Not authorized would be the better word, but the suite for MQTT 5 cannot read it.
        return UNSPECIFIED if topic_filter == "test/nosubscribe" else SUCCESS

    def receive(self, principal: object, topic: str) -> bool:
        return True

    def rule_of(
        self, principal: object, action: str, topic: str, qos: int, retain: bool
    ) -> str:
        return "broker.tac"


options = Options()
options.parseOptions(["--config", os.environ["MHUB_CONFIG"]])
broker = makeService(options)
broker.hub.authorize_with(Refusing())
application = Application("mhub")
broker.setServiceParent(application)
