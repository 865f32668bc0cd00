"""The control socket: server and client over real sockets, and `mhub cluster`."""
