"""The control socket, over real sockets."""
