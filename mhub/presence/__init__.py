"""Presence: who is connected since when and from where, as retained messages of the broker's own.

    tables of all nodes -> Publisher -> $SYS/presence/CLIENT, retained, at each node for its clients
                           |
                           asks other nodes for what their tables do not say

topics      client ids as one level of a topic
publisher   what is retained, made equal to what the tables say, a bounded part at a time [sans-I/O]
service     the publisher under Twisted
"""
