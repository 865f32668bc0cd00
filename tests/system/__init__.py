"""The whole broker as a user meets it: a `twistd mhub` process, and real clients over real sockets.

process    starts, watches and stops a broker
house      the broker that most tests share: one listener of each kind
case       the base of the tests: a house, names of one's own, no traceback in the log
paho       paho-mqtt, made to wait for what it asked for
mosquitto  mosquitto_pub, mosquitto_sub and mosquitto_rr
raw        packets over a socket, for what no client library does

durability*  clients that know what they sent, were promised and got; the verdict; the stores
crash_run    `make crash`: a broker killed under load, again and again

cluster_processes, _switch, _proxy  nodes of a cluster, the links between them, what is in front
cluster_clients, _check             clients that reconnect to any of them; what must hold
cluster_testbed                     both together, from the first node to the verdict
cluster_scenarios, _still           what happens to the nodes
cluster_roam, test_roam_cluster     nothing happens to them, but clients go from node to node
cluster_run, _jobs                  `make chaos`, `make roam`: all of that, several at a time
cluster_trace                       every packet of every client, to find a defect by
"""
