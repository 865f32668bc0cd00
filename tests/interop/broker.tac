# mhub for Eclipse Paho's suites, which subscribe to test/nosubscribe and want to be refused.
# What a client may do is not a matter of the configuration, but of a port of the core: here is the
# smallest thing to fit it.  Start: MHUB_CONFIG=FILE twistd -n -y broker.tac

import os

from twisted.application.service import Application

from mhub.tap import Options, makeService


class Refusing:
    def may_publish(self, connection: object, topic: str) -> bool:
        return True

    def may_subscribe(self, connection: object, topic_filter: str) -> bool:
        return topic_filter != "test/nosubscribe"


options = Options()
options.parseOptions(["--config", os.environ["MHUB_CONFIG"]])
broker = makeService(options)
broker.hub.authorizer = Refusing()
application = Application("mhub")
broker.setServiceParent(application)
