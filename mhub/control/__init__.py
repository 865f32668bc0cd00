"""The control socket: how tools on the same machine talk with a running broker.

    mhub status ... -> ..._command -> client -> Unix socket -> server, site, app -> mhub.operations

contract    what crosses the socket, its bounds, and the error that both sides know
server      the service that listens: the file, its permissions, new connections
site        the connections: how many, how long a request may be, how long all takes
app         which request is which operation
answer      what is written of an answer, as its client takes it
client      one call, blocking, for command lines; needs no reactor and no HTTP library
place       which socket a command line means

    user_command, role_command, policy_command, ban_command, explain_command
                     `mhub user|role|policy|ban|explain`, by registry_calls: of a broker, or of
                     its store; access_view is how they look
    broker_command   `mhub status|clients|kick`; broker_view is how they look
    cluster_command  `mhub cluster status|leave|forget`; cluster_view is how the first of them looks
    table, figures   texts and numbers of answers, as a terminal has room for them

The socket is as open as its file: who may write to it may use every operation.
"""
