"""Who a client is.

scram      the server's side of SCRAM-SHA-256, for MQTT 5.0's enhanced authentication
users      the file with SCRAM users: read, checked, edited
saslprep   names and passwords in the one form in which they are compared
"""
