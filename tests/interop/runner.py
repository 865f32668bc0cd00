"""Runs one of Eclipse Paho's suites against a broker and writes a line of JSON for each test.

    python runner.py SUITES_DIRECTORY client_test 127.0.0.1 1883 [TEST ...]

The suites are scripts that take host and port from module globals, which only their `__main__` part
sets; and that part hands `-p` on to unittest, which does not know it.  So the globals are set here.
Runs in a process of its own: the suites leave threads behind, and they print.
"""

import importlib
import json
import logging
import os
import signal
import sys
import time
import traceback
import unittest

TOPICS = ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")
WILDCARDS = ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")

# A test of 3.1.1 whose name hides it from unittest.
UNNAMED = {"client_test": ["will_message_test"]}

LONGEST_TEST_S = 60
"""Some tests wait in a loop for what does not come from a broker that fails them."""


def give_up(number: int, frame: object) -> None:
    raise TimeoutError(f"not over after {LONGEST_TEST_S} s")


class Verdicts(unittest.TestResult):
    """Says how each test went as soon as it is known."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()
        self._verdict = ("passed", "")
        signal.alarm(LONGEST_TEST_S)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self._verdict = ("failed", "".join(traceback.format_exception(*err)))

    addError = addFailure

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.alarm(0)
        verdict, text = self._verdict
        took_s = round(time.monotonic() - self._began, 1)
        name = test.id().rpartition(".")[2]
        line = {"test": name, "verdict": verdict, "took_s": took_s, "text": text}
        print(json.dumps(line), file=sys.__stdout__, flush=True)
        super().stopTest(test)


def main() -> None:
    directory, suite, host, port, *names = sys.argv[1:]
    sys.path.insert(0, directory)
    logging.getLogger().setLevel(logging.ERROR)
    sys.stdout = sys.stderr  # what the suites print is not what we print
    module = importlib.import_module(suite)
    module.host, module.port = host, int(port)
    module.topics, module.wildtopics = TOPICS, WILDCARDS
    module.nosubscribe_topics = ("test/nosubscribe",)
    module.topic_prefix = "client_test5/"
    signal.signal(signal.SIGALRM, give_up)
    case = module.Test
    names = names or unittest.TestLoader().getTestCaseNames(case) + UNNAMED.get(suite, [])
    unittest.TestSuite(map(case, names)).run(Verdicts())
    sys.stderr.flush()
    os._exit(0)  # a thread of a suite may wait for its socket for ever


if __name__ == "__main__":
    main()
