"""MQTT over HTTP: what a program without an MQTT client can do here by requests alone.

    message     messages as requests bring them and answers show them: fields, checks, JSON
    packets     MQTT 5 from the client's side: what a client sends, what a broker answers
    client      a client in this process, on the core's own Connection
    outcome     reason codes as errors of the API
    pool        one client for each caller, kept while it is used
    publishing  publish, batch, request and response
    retained    read a retained message
    events      the text of server-sent events, and the ring of those that can be sent again
    stream      the messages of some filters as server-sent events
    gateway     all of it together, as the endpoints see it

Nothing here knows HTTP.  Every message goes through a client that the hub treats as any other, so
rights, limits, quotas, durability, order, back-pressure, events and counters are those that an
MQTT client of the same user would have.  Only what a retained message is, is looked up without.
"""
