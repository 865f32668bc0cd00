"""`mhub bench`: its parts one by one, and the whole of it against brokers good and bad.

relay       a broker that only passes bytes on, to measure the load side itself
faulty      a broker that does wrong on purpose, in a thread
"""
