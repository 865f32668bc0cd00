"""Bytes to packets and back: MQTT 3.1, 3.1.1 and 5.0, without I/O, clock or state.

Imports the standard library only; compiled by mypyc.

    reasons      reason codes, their names, and which packet may carry which
    errors       ProtocolFault: what a peer did wrong, with the code to answer
    primitives   integers, strings and binary data as MQTT writes them
    topics       the rules for topic names and filters
    properties   MQTT 5 properties: what each is, where it may stand
    publish      PUBLISH both ways: the message itself (the hot path)
    packets      what the other packets from a client hold
    decode       bodies of those packets -> packets
    encode       packets a server sends -> bytes
    websocket    RFC 6455 frames around the MQTT byte stream
    proxy        the PROXY protocol header in front of it

    bytes -> decode.frame() -> publish.decode() | decode.connect() | decode.subscribe() ...
"""
