# mhub with an authenticator that has to ask somebody: here a timer of the reactor.  It lets the user
# name say what it does: "never" gets no answer, "no" is refused, and everybody else is let in after
# a tenth of a second.  Start: MHUB_CONFIG=FILE twistd -n -y slow_authenticator.tac

import os

from twisted.application.service import Application
from twisted.internet import reactor

from mhub.core.authentication import Claim, Later, failure, success
from mhub.core.principal import Identity
from mhub.tap import Options, makeService


class Slow:
    def authenticate(self, claim: Claim) -> Later:
        later = Later()
        user = claim.username or ""
        if user != "never":
            step = failure("no") if user == "no" else success(Identity(user, "slow"))
            call = reactor.callLater(0.1, later.give, step)
            later.on_abandon = call.cancel
        return later


options = Options()
options.parseOptions(["--config", os.environ["MHUB_CONFIG"]])
broker = makeService(options)
broker.hub.admission.authenticator = Slow()
application = Application("mhub")
broker.setServiceParent(application)
