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
policies/     model.conf, the default policy, examples
"""
