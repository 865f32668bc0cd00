"""What the OpenAPI document says is what a running broker does, as schemathesis sees it.

A short run, with a fixed seed; `make api-fuzz` is the long one, with all that schemathesis can do.
"""

from tests.system.case import BrokerCase, place
from tests.system.openapi_run import fuzz, populate, prepare, still_there
from tests.system.web import Web


class OpenApiTests(BrokerCase):
    def test_no_finding(self) -> None:
        directory = place(self)
        broker = self.start(prepare(directory), directory)
        web = Web(broker)
        responder = populate(web)
        self.addCleanup(responder.close)
        done = fuzz(web, directory, 1, 1, "--phases", "fuzzing")
        text = "\n".join(line[:300] for line in done.output.splitlines())[-20_000:]
        self.assertEqual(done.status, 0, text)
        self.assertEqual(done.report["operations"]["tested"], done.report["operations"]["selected"])
        self.assertEqual(still_there(web), "")
