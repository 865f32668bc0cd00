"""The control socket: how tools on the same machine talk with a running broker.

    mhub cluster ... -> command -> client -> Unix socket -> server -> what the broker registered

contract    the lines that cross the socket, their bounds, and the error that both sides know
server      the service that listens; a broker gives it a function for each command
connection  what a client of it asks and is answered
client      one call, blocking, for command lines; needs no reactor
command     `mhub cluster status|leave|forget`
status      how `mhub cluster status` looks

The socket is as open as its file: who may write to it may use every command.
"""
