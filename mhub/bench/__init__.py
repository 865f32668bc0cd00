"""`mhub bench`: load for any MQTT broker, and what came of it.

    cli         the command: options, order of events, exit status
    run         find the broker, then one scenario after the other
    plan        what to run: the scenarios with their settings, and the default matrix
    target      a broker's URL, and whether it may be loaded
    wires       sockets: TCP, Unix, TLS; what their errors mean
    websocket   WebSocket, the client's side, sans-I/O
    poller      which sockets are ready: epoll, or what else the system has
    swarm       many clients on one event loop
    traffic     the scenarios that send messages, at full speed or paced
    crowd       the scenario that opens connections
    usage       processor time and memory of this process and of the broker
    result      what one scenario measured
    report      the tables and remarks that people read
    picture     histograms drawn in text
    units       numbers as people read them
    progress    the bar while it runs
    errors      what a user is told when it cannot be measured
    load/       frames, scanner, histogram: the hot part, sans-I/O, compiled

The way of a message: `Client.publish` cuts a whole batch of frames from one template, the swarm
sends them with one call, the broker does its work, one `recv` gets what it delivered, and
`Client.feed` checks number and order of every message and puts its latency into the histogram.
Publishers and subscribers live in this one process, so one clock times both ends.
"""
