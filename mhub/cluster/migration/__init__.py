"""Session migration: the session of a client follows it from node to node.

    migration   all of it, as the node sees it: links, tables, time, the store
    claims      who owns a session, and the CONNECT that waits for it
    holders     which nodes have a session, or claim it
    exchange    frames between source and target
    source      the side that has it: a state machine for each session
    target      the side that gets it: a state machine for each session
    given       sessions that were given away, and the nodes that have not switched yet
    switches    a node that publishes switches from the old place to the new one
    resend      what is in its channels that the session has not got
    segments    where messages may be that a session has not got
    intake      which messages are for a session meanwhile, by the node that published them
    intakes     those of all sessions here: gates that open, nodes that have switched elsewhere
    merging     older sessions of clients that have a newer one
    queues      a frozen session's queue, read in portions; entries as they arrive
    outlook     what all this waits for, as an operator sees it
    controls    control records: what stands in a channel between the messages
    pending     what a client has published, for nodes that cannot be reached
    reading     sessions and entries from another node, checked as they are read

Theory
======

A session is held under an *epoch*, a number of the cluster's hybrid logical clock.  A CONNECT makes
a claim with a new epoch, which all nodes hear of (`mhub.cluster.tables`); the highest one owns the
session.  The node that has it is the source, the one that claims it the target.

Messages reach a session in channels, one from each publishing node to each node that has
subscribers.  A channel numbers its messages and keeps their order, over broken links and restarts,
and the publishing node keeps each message until the receiver has confirmed it.  This last property
is what migration is built on: what a session has not got when it leaves is still where it was
published.  So the source says, for each publishing node, up to which *position* of its channel the
session has got everything, and that node sends what is behind it once more, to the target.

    source A                       target B                       each publishing node P
                                   claim: table "c X", epoch e -> (A and B are such nodes, too)
    freeze: no more client
    SESSION state, subscriptions->
                              <-   ACCEPT
    ENTRIES in flight, queue  ->
                              <-   MORE
    cut: remember positions,
    confirm nothing behind them
    ENTRIES the rest, END     ->   routes the subscriptions; CONNACK when all of it is safe
                              <-   DONE, and CUT with position  -> from the channel to A, what is
    forget it                                                      behind the position: DIRECT to
                                                                   B; then MARK, in the channel to B
                              <-                                   SWITCHED, to A: confirm again

B takes from P what is DIRECT, and what comes behind P's MARK; not what P sends in front of it, as
that was for A as well.  P's messages come to the session from A up to the position, then DIRECT,
then behind the MARK: each of them once, and in their order.  Nothing is compared by name, nothing
is held back at B, and the CONNACK does not wait for P.

If P cannot be reached, nothing changes but the time: A does not confirm what is behind the position
(`IncomingChannel.hold_confirm`), B keeps P's *gate* closed, and whoever of both is linked with P
first sends it the CUT, before anything else crosses the link.  If the session has gone on
meanwhile, the gate has a *segment* for each node where it was: P works them off in their order.  P
needs to remember nothing: its own marks that are not confirmed yet tell which of them it has dealt
with already.

Invariants
==========

I1  One owner.  Only the node with the highest epoch lets the client in, and only after the source
    has ended, or is given up; the source is frozen from its SESSION on.
I2  Fence.  Each frame, mark and direct message carries the epoch of the claim it is about.  One
    with another epoch than the receiver serves changes nothing.
I3  One migration at a time.  A node that is a target becomes a source only when it has all.  A
    CONNECT that is given up changes nothing: the session arrives all the same.
I4  All or nothing.  Until END the source is whole: if the link breaks or the target crashes, that
    forgets what arrived, and the source goes on, or begins again under a newer epoch.
I5  Safe first.  END is sent when the source's store knows that from now on the target may have the
    session; DONE and CUT when the target's store has all of it, and it remembers that it took it
    (`took`) for as long as the source's table says that the session is there.
I6  One place.  Each message of P is for one session of the client: the last one that P has switched
    to.  P switches at one moment: DIRECT and MARK to the new place, CLOSE to all others.
I7  Doubt.  After END without DONE the source does not know who has the session.  It gives it to
    nobody before the target, or its store after a restart, has answered ASK.
I8  Told.  Whenever a session cannot be continued exactly, its client is told Session Present 0.

Session Present 0
=================

If the source cannot be reached the client gets a new session.  Nodes that can be reached switch to
it before the CONNACK (CUT without segments; MARK to the new place, CLOSE to the older ones), the
others when they can.  The older session is *late*: when the owner can be reached, its entries go
into the channel to it (RELAY) and join the end of the queue, and so does what comes from nodes that
have not switched yet, until all have sent CLOSE.  So nothing is lost, and nothing comes twice, but
what the old session had comes late, and the client may see again what it had not acknowledged.

A session that gets CLOSE from a node without being given away has missed something from there on:
its client is disconnected, and told Session Present 0 when it is back.  So it is when a publishing
node finds that something behind the position was confirmed (a *gap*): the source had crashed, or
was in doubt for longer than `suspect_s` and did not let publishers wait for it.

Publishers that migrate
=======================

What a client has published goes out in front of its END to all nodes that can be reached, also
what has to be sent again, as a session has left the node where it went first.  For the others the
target gets *copies* of what is in the source's channels (PENDING), puts them into its own channels
in front of all that the client publishes next, and says where they are from: a receiver takes each
of them once, whichever way is faster.  The marks in front of a copy, where it was copied, go with
it: whether it is for a session is decided there.  A session that has left such a node for the
target takes the copies at once, as its gate for the source is still closed: else the source would
send them again behind what the client publishes here.

Shared subscriptions are a session's for as long as nobody else can have the message: the source is
a member of its groups until DONE, the target from END on, and what comes to the source in between
goes to the group again.
"""
