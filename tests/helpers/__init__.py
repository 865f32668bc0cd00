"""What the tests share: an MQTT codec of their own and clients on real sockets.

packets    builds and reads MQTT packets, right and wrong ones, without `mhub.wire`
client     a client on a real socket that drives the broker of the same thread
websocket  a WebSocket under such a client
broker     a test case with a broker inside
"""
