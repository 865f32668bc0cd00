"""HTTP, as far as several parts have it in common: the control socket and the admin listener.

site     connections: how many, how long a request may be, how long all takes
peer     who is at the other end of a Unix socket
stream   an answer that is written as the client takes it
client   the other side: what requests to other servers have in common
"""
