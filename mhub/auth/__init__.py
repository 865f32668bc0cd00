"""Who a client is.

scram      the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users      the file with SCRAM users: read, checked, edited
guard      who is kept out: bans, lock-outs after failed logins, flapping clients
bans       the bans, and whom they hit
counters   how often something happened lately, in bounded memory
addresses  addresses of clients, and networks
saslprep   names and passwords in the one form in which they are compared
"""
