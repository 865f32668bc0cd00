"""What belongs to the process as a whole, and not to the broker in it.

run          `mhub run`: the foreground, log lines, exit status
signals      SIGTERM, SIGINT and SIGHUP, from the first moment of a start
reload       SIGHUP: what has changed in the file, and what of it is in force
descriptors  the limit of open files
threads      the reactor's, which look up names: a stop does not wait for them
twistd       what would keep twistd from starting the broker
"""
