"""`mhub ctl`: a running broker, seen and changed from a command line.

    mhub ctl ... -> main -> ..._command -> client -> Unix socket -> mhub.control

main        which command is which module
client      one call, blocking; needs no reactor and no HTTP library
place       which socket a command line means

    user_command, role_command, policy_command, ban_command, explain_command
                     `mhub ctl user|role|policy|ban|explain`, by registry_calls: of a broker, or of
                     its store; access_view is how they look
    broker_command   `mhub ctl status|clients|kick`; broker_view is how they look
    cluster_command  `mhub ctl cluster status|leave|forget`; cluster_view is how the first looks
    table, figures   texts and numbers of answers, as a terminal has room for them

Nothing here imports Twisted: a command line shall start at once.
"""
