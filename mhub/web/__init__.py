"""HTTP, as far as the control socket and the admin listener have it in common.

site     connections: how many, how long a request may be, how long all takes
stream   an answer that is written as the client takes it
"""
