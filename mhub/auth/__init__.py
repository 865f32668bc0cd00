"""Who a client is.

    CONNECT, AUTH -> chain -> sources, in the order of the configuration -> yes, no, ... -> Step

contract         what an authenticator is: Source, Answer, the plugin interface
chain            asks the sources of a listener one after the other; what holds for all of them
plugins          where the types of `[[auth]]` come from
wiring           from the settings to the chain
reload           other authenticators while clients log in

registry_source  users of the registry
password_file    users of a file
certificate      TLS client certificates
jwt              JSON Web Tokens: what they say of a client
jwt_keys         the keys that check them, and which algorithms each is for
jwks             where these keys come from: files, and the issuer's URL
anonymous        those who bring no password
redis            users in Redis
postgresql, mysql  users in a database: how to connect
sql              ... what is asked and what the answer means; sql_text, the parameters of a query;
                 sql_pool, connections in threads
http             a web service that is asked about clients; http_client, its requests
external         sources that ask a server: settings, and what a server may say about a user
backend          the bounds around such a server: queue, time-out, circuit breaker
fair_queue       a queue in which whoever sends much waits behind itself
answer_cache     its answers, remembered for a moment
facts            what is known of a client, by names, for queries, keys and requests
grants           rules for one client alone, from the access lists of others

guard            who is kept out: bans, lock-outs after failed logins, flapping clients
bans             the bans, and whom they hit
counters         how often something happened lately, in bounded memory
addresses        addresses of clients, and networks

lookup           how a client is found in a list of users
passwords        checking and hashing, in threads of their own
hashes           the forms of hashes that are read, and the one that is written
scram            the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users            the file with users: read, checked
command          `mhub hash-password`
saslprep         names and passwords in the one form in which they are compared
"""
