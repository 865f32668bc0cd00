"""Who a client is.

scram      the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users      the file with SCRAM users: read, checked, edited
guard      who is kept out: bans, lock-outs after failed logins, flapping clients
bans       the bans, and whom they hit
counters   how often something happened lately, in bounded memory
addresses  addresses of clients, and networks
backend    the bounds around a server that is asked about clients: queue, time-out, circuit breaker
external   sources that ask a server: settings, and what a server may say about a user
facts      what is known of a client that logs in, by names, for queries, keys and requests
grants     rules for one client alone, from the access lists of others
redis      users in Redis
answer_cache  answers of such a server that are remembered for a moment
saslprep   names and passwords in the one form in which they are compared
"""
