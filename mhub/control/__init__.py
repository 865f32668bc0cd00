"""The control socket: how tools on the same machine talk with a running broker.

    mhub ctl ... -> Unix socket -> server, site, app -> mhub.operations

contract    what crosses the socket, its bounds, and the error that both sides know
server      the service that listens: the file, its permissions, new connections
site        the connections: how many, how long a request may be, how long all takes
app         which request is which operation
answer      what is written of an answer, as its client takes it

The socket is as open as its file: who may write to it may use every operation.
"""
