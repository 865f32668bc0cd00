"""Many nodes, one broker: whom a node knows, and what they have to tell each other.

Sans-I/O, so that a whole cluster can run in one process under a clock of its own:

    contract    where the node and the links meet
    node        this node: links that come and go, heartbeats, who is ready
    member      another node, as this one sees it
    inbox       frames that wait until the store of this node has caught up
    dials       whom to call, and when
    unreachable what the log is told of addresses where no node answers
    frames      the kinds of frames that cross a link
    said        the fields of a frame, checked as they are read
    tables      routes and clients: what each node tells all others
    fill        retained messages: what nodes that meet lack of each other's
    rounds      the registry: the same, and how far each node has taken the table of each
    migration   one session for each client id, which follows its client from node to node
    offers      drain: sessions of a node that leaves, whose clients are not connected
    queries     what operators ask of other nodes: questions, and answers in parts
    detector    failed-node detector: which nodes are gone, for this one to take over from
    drain       how far a failed node is that gives away what it has

On Twisted:

    link        Perspective Broker between two nodes; login, strangers, broker and tls are its parts
    discovery   addresses from a list and from DNS SRV
    hostnames   addresses of host names, from the name servers of the configuration
    service     the node with its clock and its links
    failover    another node, started again in this process from the store that all share

    Hub.publish -> Peers.forward -> OutgoingChannel.put -> (a turn's end) flush -> LinkEnd.send
    Ends.received -> IncomingChannel.take -> Hub.publish_from_peer -> the sessions of that node
    Hub, on CONNECT -> Claims.claim -> Target <- frames, marks -> Source, where the session is
"""
