# mhub with the rules of a CSV file, and users whose password is known.
# Start: MHUB_CONFIG=FILE twistd -n -y acl_broker.tac; the rules are in rules.csv beside it.

import os
from pathlib import Path

from twisted.application.service import Application

from mhub.access.policy import load_csv
from mhub.core.authentication import Claim, Step, failure, success
from mhub.core.principal import Identity
from mhub.tap import Options, makeService
from mhub.wire import reasons
from tests.interop.acl_clients import password


class Passwords:
    def authenticate(self, claim: Claim) -> Step:
        if claim.username is None:
            return success(Identity("", ""))
        if claim.password == password(claim.username).encode():
            return success(Identity(claim.username, "password"))
        return failure("wrong", reasons.BAD_USER_OR_PASSWORD)


config = os.environ["MHUB_CONFIG"]
options = Options()
options.parseOptions(["--config", config])
broker = makeService(options)
broker.hub.admission.authenticator = Passwords()
broker.hub.authorize_with(load_csv(Path(config).with_name("rules.csv")).index())
application = Application("mhub")
broker.setServiceParent(application)
