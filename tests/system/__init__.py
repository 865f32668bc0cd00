"""The whole broker as a user meets it: a `twistd mhub` process, and real clients over real sockets.

process    starts, watches and stops a broker
house      the broker that most tests share: one listener of each kind
case       the base of the tests: a house, names of one's own, no traceback in the log
paho       paho-mqtt, made to wait for what it asked for
mosquitto  mosquitto_pub, mosquitto_sub and mosquitto_rr
raw        packets over a socket, for what no client library does

durability*  clients that know what they sent, were promised and got; the verdict; the stores
crash_run    `make crash`: a broker killed under load, again and again

cluster_house, _switch, _proxy, _stage  nodes of a cluster, the links between them, what is in front
cluster_clients, _check                 clients that come back to any of them; the verdict
cluster_scenarios, _still               what happens to the nodes
cluster_run                             `make chaos`: all of that, for as long as one likes
cluster_trace                           every packet of every client, to find a defect by
"""
