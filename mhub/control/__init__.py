"""The control socket: the admin API for tools on the same machine, without a login.

    mhub ctl ... -> Unix socket -> server, site -> mhub.admin

contract    the bounds of the socket, how it is found, and the error that both sides know
server      the service that listens: the file, its permissions, new connections
site        the connections: how many, how long a request may be, how long all takes

The socket is as open as its file: who may write to it may do everything that the API can.
"""
