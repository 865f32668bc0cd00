"""The broker itself: sessions, routing, retained messages, wills, limits.

Sans-I/O and compiled by mypyc: no twisted, no zope, no clock (`now` is an argument), no logging.
Imports `mhub.wire` and the standard library.  The world is reached through the ports alone.

    limits      what a listener allows its clients
    listener_limits  those that a reload has changed, for connections that are there
    quota       limits of a user or a role, in the place of the listener's
    rates       how fast clients may be: token buckets, and who waits for them
    accounts    what the users and tenants have: connections, sessions, subscriptions, ...
    overload    whether the broker falls behind
    histogram   how long something takes, counted in buckets
    ports       what the core needs from the world: outlets, the journal writer, the cluster
    principal   who a connection is: what it has proved, what it only says
    authentication  what an authenticator is asked and may answer, at once or later
    guard       who is kept out: what it is asked at a CONNECT
    authorization   what is asked about a principal before it may do something
    namespace   the topics that a client sees: those below its mount point
    events      what happens, as one stream for any number of sinks; never per message
    stats       counters, plain integers
    timers      one wheel for every deadline
    tree        topic names -> values, searched by filter (retained messages, cached routes)
    filters     topic filters -> subscriptions, searched by topic
    router      topic -> who gets it, cached
    shared      groups of $share subscribers
    delivery    a subscription, and a message on its way to one session
    session     what a client has here, connected or not; the rules between its three parts:
    inflight    what it has not acknowledged: window, packet ids, what is sent again
    outgoing    what waits for it: a bounded queue, of which a part may be paged out
    replay      retained messages for its new subscriptions
    redistribution  what a member of a shared group leaves undone goes to the others
    revocation  rights that change: the invariants, and sessions that are reviewed
    storage     the hub's side of the store: what goes there and comes back, and who waits for it
    connection  one network connection: packets in, frames out
    partial     packets of which only a part has come, of all connections together
    aliases     topic aliases of a connection
    frames      a message as the frame that one connection gets
    admission   CONNECT, AUTH: who it is, which session, what the CONNACK says
    publishing  PUBLISH, PUBREL: the way of a message in
    subscribing SUBSCRIBE, UNSUBSCRIBE
    replicated  a map that all nodes have: newest wins, tombstones, digests
    retained    retained messages
    registry    users, roles, rules, bans: the table that the nodes of a cluster agree on
    floors      how far each node has taken it, and so which deletions may be forgotten
    fields      the fields of a record, written down once
    records     what a store keeps, as records and batches of changes
    codec       records as bytes, for what carries them to another node
    journal     what changed since the last batch, and what may not be said before it is safe
    hlc         the cluster's clock
    table       what the other nodes are told of this one
    peer        another node: its link, what it wants, what it knows
    channel_out the channel of messages to it
    channel_in  the channel of messages from it
    channel_records  what stands in a channel, as bytes
    peers       all other nodes: which of them a message is for
    hub         owns all of it; publish, flush, tick
    restore     a hub from what a store has
    metrics     every number that is shown: its name, type, unit, meaning, and where it is
    sys         the $SYS topics
    tracing     looking on at a topic or a client

    Connection.receive(data, now) -> Publishing.publish -> Hub.publish -> Session.deliver
      -> Connection.publish: frames gather in `out` -> Hub.flush -> Connection.flush -> Outlet.write
"""
