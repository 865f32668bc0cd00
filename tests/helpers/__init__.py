"""What the tests share: an MQTT codec of their own and clients on real sockets.

packets       builds MQTT packets, right and wrong ones, without `mhub.wire`
reading       reads those of the broker, strictly
properties    the properties of MQTT 5
client        a client on a real socket that drives the broker of the same thread
websocket     a WebSocket under such a client
broker        a test case with a broker inside
certificates  certificates for TLS, made when needed
splits        ways to cut a stream of bytes
"""
