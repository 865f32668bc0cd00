"""Session migration: the session of a client follows it from node to node.

    epochs      who owns a session, and the CONNECT that waits for it
    source      the side that has it: a state machine for each session
    target      the side that gets it: a state machine for each session
    gates       which messages are for a session meanwhile, by the node that published them
    relays      messages that come for a session after it was given away
    queues      a frozen session's queue, read in portions; entries as they arrive
    records     control records: what stands in a channel between the messages
    frames      what both sides say to each other

Theory
======

A session is held under an *epoch*, a number of the cluster's hybrid logical clock.  A CONNECT makes
a claim with a new epoch, which all nodes hear of (`mhub.cluster.tables`); the highest one owns the
session.  The node that has it is the source, the one that claims it the target.

Messages reach a session in channels, one from each publishing node to each node that has
subscribers.  A channel keeps the order of its messages, over broken links and restarts.  So the
order of a publisher's messages is kept if, for each publishing node, there is one position up to
which its messages belong to the source's part of the session, and behind which they belong to the
target's part; and if the target's part comes behind all of the source's.

    source A                       target B                       each publishing node P
                                   claim: table "c X", epoch e -> (A and B are such nodes, too)
    freeze: no more client
    SESSION state, subscriptions->
                                   route its subscriptions, and
                                   hold back what comes for it
                              <-   CUT e, nodes asked          -> mark in the channel to A, and
    (mark in its own channel)                                     mark in the channel to B
    ENTRIES in flight, queue  ->
                              <-   MORE
    all marks have come
    END                       ->   behind the entries: what was
                                   held back; CONNACK, when all
                                   of it is safe
                              <-   DONE
    forget it

P puts both marks at one moment, when it knows B's subscriptions.  What P has published before is in
its channel to A in front of the mark, as P knew A's subscriptions all the time.  What P publishes
later is in its channel to B behind the mark.  A gives what came in front of P's mark, B takes what
comes behind it: each message once, and those of P in their order.  Nothing is compared by name.

Invariants
==========

I1  One owner.  Only the node with the highest epoch lets the client in, and only after the source
    has ended, or is given up; the source is frozen from its SESSION on.
I2  Fence.  Each frame and mark carries the epoch of the claim it is about.  One with another epoch
    than the receiver serves changes nothing.
I3  One migration at a time.  A node that is a target becomes a source only when it has all.  A
    CONNECT that is given up changes nothing: the session arrives all the same.
I4  All or nothing.  Until END the target has nothing: if the link breaks or it crashes it forgets
    what arrived, and the source, which has kept everything, begins again under a newer epoch.
    What came behind a mark meanwhile the source has kept as well, as *beyond* the cut.
I5  Safe first.  The source gives what its store has made safe, the target says DONE when its store
    has all of it, and remembers (`took`) until the source has forgotten the session.
I6  Doubt.  After END without DONE the source does not know who has the session.  It gives it to
    nobody before the target, or its store after a restart, has answered ASK.

Session Present
===============

The target says Session Present 1 if all of the source's state came before the CONNACK.  If the
source cannot be reached the client gets a new session, Session Present 0, which *began* with the
epoch of its claim; it waits until the nodes that can be reached have marked their channels to the
source, so what is published from then on belongs to the new session alone.  When the source is
back it puts its entries up to the marks into its channel to the owner, as *late* ones; they join
the end of the queue.  If both parts were used at the same time, in a network that was split, the
part that began later is dropped: whatever was for it has come to the other one as well.

Nodes that cannot be reached
============================

A publishing node that cannot be reached is *missing* at END.  It may have messages in its channel
to A.  So A keeps the subscriptions as a *remainder*: what comes from that node before its mark goes
into the channel to B, behind it CLOSED, and from node to node on, if the session has gone on.  B
holds back what comes from the missing node straight until CLOSED is there.

A publisher may move, too.  What it has published goes out in front of its END to all nodes that can
be reached.  For the others the target gets *copies* of what is in the source's channels, puts them
into its own channels in front of all that the client publishes next, and says where they are from:
a receiver takes each of them once, whichever way is faster.

Shared subscriptions are a session's for as long as nobody else can have the message: the source is
a member of its groups until DONE, the target from END on, and what comes to the source in between
goes to the group again.
"""
