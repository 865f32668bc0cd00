"""What belongs to the process as a whole, and not to the broker in it.

run          `mhub run`: the foreground, log lines, exit status
signals      SIGTERM, SIGINT and SIGHUP, from the first moment of a start
reload       new settings while it runs: as a whole, or not at all
parts        what a reload changes: limits, log, rules, cluster
hangup       SIGHUP
hub_settings what of the configuration is the core's
steering     what operators can change: reload, listeners, log, traces
descriptors  the limit of open files
threads      the reactor's, which look up names: a stop does not wait for them
twistd       what twistd does not do: faults found early, console, exit status
"""
