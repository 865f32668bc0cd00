"""Who a client is.

    CONNECT, AUTH -> chain -> sources, in the order of the configuration -> yes, no, ... -> Step

contract         what an authenticator is: Source, Answer, the plugin interface
chain            asks the sources of a listener one after the other; what holds for all of them
plugins          where the types of `[[auth]]` come from
wiring           from the settings to the chain

registry_source  users of the registry
password_file    users of a file
certificate      TLS client certificates
anonymous        those who bring no password

lookup           how a client is found in a list of users
passwords        checking and hashing, in threads of their own
hashes           the forms of hashes that are read, and the one that is written
scram            the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users            the file with users: read, checked, edited
saslprep         names and passwords in the one form in which they are compared
"""
