"""Exhaustive exploration: every order of events in a small cluster of the real code.

    cluster       nodes, links, disks and clients; a list of what can happen next, and doing it
    clients       a subscriber that goes from node to node, and publishers, as scripts
    snapshots     the whole cluster as bytes, and back
    fingerprints  what makes two states the same
    search        depth first over all decisions, each state once
    configs       what happens in each configuration; when it happens is explored
    faults        defects to put into the implementation, each of which a configuration must find

    python -m tests.cluster.explore --config move
    python -m tests.cluster.explore --config split-third --walk 1 --seconds 60 --shrink
    python -m tests.cluster.explore --config move --replay "p+ s- s+b a>b ..."

A decision is a word:

    a>b    the next frame on the link from a to b arrives
    a|b    a notices that its link to b is gone; what was under way to it is lost
    a*     the disk of a has done its next piece of work
    p+     client p publishes its next message, or connects again
    p-     it loses its connection
    p+b    it connects to b
    s.     the subscriber reads its next packet, and answers it
    s-     it loses its connection, or gives its CONNECT up
    s+b    it connects to b
    a/b    the link of a and b breaks
    a=b    they are linked again
    a!     a crashes
    a^     a starts again, with what its disk has
    t4     four seconds pass

Time stands still but for that.  What the clients read is checked at once, the rest where nothing
can happen any more.
"""
