"""What a client may do: Casbin's policy, compiled to an index that decides in microseconds.

rows          one row of a policy: parsed, checked, with a stable id             [compiled]
policy        all rows together: what no single row shows; CSV files
trie          patterns of rows by their levels, searched by a topic              [compiled]
index         the decisions of the live broker (`mhub.core.authorization`)       [compiled]
containment   whether all topics of a filter are allowed, and which one is not   [compiled]
explain       why a decision is what it is
quota         limits of users and roles: checked, merged (`mhub.core.quota`)
diff          which topics flip between two policies, and for whom
mosquitto_acl Mosquitto's acl_file and password_file, as rows and users
casbin_model  the same policy in PyCasbin's own Enforcer: the truth that the tests hold us to
resources     what there is to administer: in the place of topics for admin:read and admin:write
admin         who may see and change the broker over HTTP
scopes        what an API token may at most, and what none may
entries       what the registry's entries say: users, roles, rules, bans, tokens
seeding       the default policy, put into a registry once
directory     the registry as rows of a policy, kept up to date
access        the one interface that reads and changes it: users, roles, rules, bans, tokens, over
              table (the registry, and how it is changed); results is what it gives
announce      who changes what, and why, as events
dry_run       what a change of rules would do, and to whom; proposals: what would allow a denial
calls         its calls by name, for the command line: in this process or as requests
service       the index of a running broker, and what a change does to live connections
direct        the same interface on a store, while no broker runs
population    whom a comparison of two policies is about: `mhub ctl policy diff`
expectations  what a policy has to allow and deny: `mhub ctl policy test`
second_opinion  what PyCasbin says about a policy: `mhub ctl policy check`
policies/     model.conf, the default policy, examples
"""
