"""What can be asked of a running broker, and done to it, as Python.

    mhub ctl ... -> control socket, admin listener -> Operations -> hub, listeners, cluster

contract    results, errors, and what an Operations needs of the broker around the hub
operations  the calls, one method each
clients     sessions as the results that describe them, and the search through all of them
monitor     the broker watches itself, with a tick each second:
numbers     all numbers of one moment, those of the process from `process_numbers`
stats       the same as one result
series      what the charts show, and `history` what they begin with
live        the numbers of each second, for those who watch
activity    the last events, and what was denied lately
readiness   whether a load balancer should send clients here
subscriptions  all subscriptions, shared groups, and who would get a message
topics      topics by rate, and their levels
retained    retained messages
cursors     where the next page of a list begins
walk        a scan of `mhub.core` to its end, in slices
steering    results of what steers a broker, and what it needs of the broker
steer       these calls: reload, listeners, configuration, log, traces
traces      the packets of a client, or the messages of topics, as they come
packet_log  packets as events
everywhere  the operations of all nodes of a cluster, asked at one of them; its parts:
nodes       operations at another node, at all of them, or at the one that has a client
questions   what nodes may ask each other: a table of operations
places      where the session of a client is, and who is connected
merging     pages of several nodes as one; `sums`, their numbers
present     who is connected, of all nodes
loss        what the loss of a node would mean
cluster_results  results that are about all nodes
snapshot    what a broker without a store has, for an export
arguments   what an operation is called with, as it comes in JSON
slices      long work in slices, so that clients are served in between

Nothing here knows how a call came or how its result is shown.  A method returns a result, or an
awaitable of one where there is much to look at; what it refuses it raises as OperationError.
"""
