"""Who a client is.

scram      the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users      the file with SCRAM users: read, checked, edited
backend    the bounds around a server that is asked about clients: queue, time-out, circuit breaker
external   sources that ask a server: settings, and what a server may say about a user
facts      what is known of a client that logs in, by names, for queries, keys and requests
grants     rules for one client alone, from the access lists of others
redis      users in Redis
postgresql, mysql   users in a database: how to connect
sql        ... what is asked and what the answer means
sql_text   ... the parameters of a query
sql_pool   ... connections in threads, which can be cut
http       a web service that is asked about clients
http_client  ... its requests: no redirects, no cookies, answers of bounded length
answer_cache  answers of such a server that are remembered for a moment
saslprep   names and passwords in the one form in which they are compared
"""
