"""The hot part of `mhub bench`: plain typed Python that mypyc compiles, without any I/O.

    packets     what a client says, and batches of PUBLISH frames
    client      one MQTT client: bytes in, bytes out
    loops       what the publishers do on each turn
    track       number and order of the messages of one publisher at one subscriber
    histogram   latencies, counted log-linearly
    pace        when each message of an open loop is due
    reasons     reason codes in words

It imports the standard library and its own kind only.
"""
