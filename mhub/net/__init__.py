"""Sockets: everything between the kernel and the core.

loop        accept, read, write straight through; one epoll for all sockets   [compiled]
layers      what may stand between socket and core: PROXY header, TLS, WebSocket
tls         certificates and contexts, reloaded while running
handshake   the HTTP upgrade of a WebSocket
sniff       what a stranger on an MQTT port speaks
listen      listening sockets as the configuration wants them
entries     the listeners of a running broker, each with its socket and its connections
reload      other listeners in their place
strangers   what is said of one, with the listener that it may want
service     all of it as a Twisted service: the reactor's side of `loop`, start and stop

socket -> Link.readable -> [ProxyLayer -> TlsLayer -> WebSocketLayer ->] Connection.receive
socket <- Link.write    <- [TlsLayer <- WebSocketLayer <-]                Connection.flush
"""
