"""Random policies, clients and topics over few names, so that much of it meets.

The names include one that stands in no pattern, first levels with `$`, and values that must never
fill a placeholder.
"""

from hypothesis import strategies as st

from mhub.core.principal import Certificate, Principal

NAMES = ("a", "b", "$x")
UNUSED = "z"
VALUES = ("a", "b", "z", "$x", "", "+", "#", "a/b", "x\0")
TENANTS = ("", "t1", "t2")
ROLES = ("r1", "r2", "r3", "r4")
HOLES = ("%u", "%c", "%t", "%{cn}", "%{site}", "a%c", "%u%c", "$%u", "%%", "%2C")

levels = st.sampled_from(("a", "b", "+", "+", *HOLES, ""))
firsts = st.sampled_from(("a", "b", "$x", "+", "+", *HOLES))
names = st.sampled_from(("a", "b", UNUSED, "", "", "ab", "$x", "%", ","))


def joined(first: str, rest: list[str], tail: bool) -> str:
    return "/".join([first, *rest, *(["#"] if tail else [])])


patterns = st.one_of(
    st.just("#"), st.builds(joined, firsts, st.lists(levels, max_size=2), st.booleans())
)
plain_levels = st.sampled_from(("a", "b", "+", UNUSED))
filters = st.one_of(
    st.just("#"),
    st.builds(
        joined,
        st.sampled_from(("a", "b", "$x", "+", UNUSED)),
        st.lists(plain_levels, max_size=2),
        st.booleans(),
    ),
)
topics = st.builds(
    joined,
    st.sampled_from(("a", "b", UNUSED, "$x", "ab", "$xa", "$a")),
    st.lists(names, max_size=3),
    st.just(False),
)
roles = st.sampled_from([f"role:{name}" for name in ROLES])
givers = st.one_of(
    roles, st.sampled_from(("user:a", "user:b", "role:everyone", "role:authenticated"))
)
subjects = st.one_of(givers, givers, st.just("role:anonymous"))
tenants = st.sampled_from(("*", "*", "t1", "t2"))
effects = st.sampled_from(("allow", "allow", "deny"))
whole = st.tuples(
    st.sampled_from(("*", "publish", "connect", "subscribe|receive", "receive", "publish|connect")),
    st.just("any"),
)
conditional = st.one_of(
    st.tuples(
        st.just("publish"),
        st.sampled_from(("qos=1", "qos<=1", "retain=yes", "retain=no", "qos<=1&retain=no")),
    ),
    st.tuples(
        st.sampled_from(("subscribe", "publish|subscribe")), st.sampled_from(("qos<=0", "qos=2"))
    ),
)
acts = st.one_of(whole, whole, conditional)
admin_acts = st.tuples(
    st.sampled_from(("admin:read", "admin:write", "admin:read|admin:write")), st.just("any")
)
# Of the names of topics, so that a rule about one would be seen to decide about the other.
resources = st.sampled_from(("#", "#", "+", "a", "b", "a/#", "+/#", "+/b", "$x"))


def rule(
    subject: str, tenant: str, act: tuple[str, str], pattern: str, effect: str
) -> tuple[str, ...]:
    return ("p", subject, tenant, act[0], pattern, act[1], effect)


mqtt_rules = st.builds(rule, subjects, tenants, acts, patterns, effects)
admin_rules = st.builds(rule, subjects, tenants, admin_acts, resources, effects)
rules = st.one_of(mqtt_rules, mqtt_rules, mqtt_rules, admin_rules)
abouts = st.one_of(st.tuples(acts, patterns), st.tuples(admin_acts, resources))
grants = st.builds(
    lambda about, effect: f"{about[0][0]}, {about[1]}, {about[0][1]}, {effect}", abouts, effects
)


@st.composite
def links(draw: st.DrawFn) -> tuple[str, ...]:
    """A role is given only roles that come later: no cycle."""
    subject = draw(givers)
    later = ROLES
    if subject[5:] in ROLES:
        later = ROLES[ROLES.index(subject[5:]) + 1 :]
    role = draw(st.sampled_from(later)) if later else ""
    if not role:
        subject, role = "user:a", "r1"
    return ("g", subject, f"role:{role}", draw(tenants))


policies = st.builds(
    lambda p, g: list(dict.fromkeys([*p, *g])),
    st.lists(rules, min_size=1, max_size=7),
    st.lists(links(), max_size=5),
)


def principal(
    user: str,
    client_id: str,
    given: list[str],
    tenant: str,
    own: list[str],
    common_name: str | None,
    site: str | None,
) -> Principal:
    who = Principal("192.0.2.1", "tcp")
    who.user = user
    who.client_id = client_id
    who.roles = tuple(given)
    who.tenant = tenant
    who.grants = tuple(own)
    if common_name is not None:
        who.certificate = Certificate(common_name)
    if site is not None:
        who.attributes = {"site": site}
    return who


values = st.sampled_from(VALUES)
principals = st.builds(
    principal,
    st.one_of(st.sampled_from(("a", "b", "")), values),
    values,
    st.lists(
        st.sampled_from((*ROLES, "everyone", "authenticated", "anonymous")), max_size=2, unique=True
    ),
    st.sampled_from(TENANTS),
    st.one_of(st.just([]), st.lists(grants, max_size=2)),
    st.one_of(st.none(), values),
    st.one_of(st.none(), values),
)
actions = st.sampled_from(
    (
        "connect",
        "publish",
        "publish",
        "publish",
        "subscribe",
        "receive",
        "admin:read",
        "admin:write",
    )
)
questions = st.tuples(actions, topics, st.integers(0, 2), st.booleans())
