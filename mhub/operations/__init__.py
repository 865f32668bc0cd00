"""What can be asked of a running broker, and done to it, as Python.

    mhub ctl ... -> control socket, admin listener -> Operations -> hub, listeners, cluster

contract    results, errors, and what an Operations needs of the broker around the hub
operations  the calls, one method each
clients     sessions as the results that describe them, and the search through all of them
snapshot    what a broker without a store has, for an export
arguments   what an operation is called with, as it comes in JSON
slices      long work in slices, so that clients are served in between

Nothing here knows how a call came or how its result is shown.  A method returns a result, or an
awaitable of one where there is much to look at; what it refuses it raises as OperationError.
"""
