"""The statements of MQTT 3.1.1 and 5.0, each held against the broker over a real socket.

mqtt311.csv, mqtt5.csv  the normative statements: id, section, side, how testable, summary
statements              which test shows which statement
report                  writes docs/conformance.md from both
test_complete           no statement without a test
test_mqtt311_*          MQTT 3.1.1, by chapters; MQTT 3.1 where it differs
test_mqtt5_*            MQTT 5.0, by chapters
"""
