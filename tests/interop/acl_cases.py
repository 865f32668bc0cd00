"""What Mosquitto's acl_file means, as a table: who may do what under which rules.

Each case is decided by the real mosquitto and by mhub with the imported rules, over sockets, and
both have to say what the table says.

    USER CLIENT-ID   what                   topic       decision

`-` is a client without a user name.  What it does:

    publish      QoS 1: does the PUBACK accept it, and does somebody who may read all receive it?
    receive      subscribed to exactly this topic
    receive:F    the same, subscribed to F
    retained     it subscribes after the message was retained
    shared       subscribed to $share/g/TOPIC
    will         is it published?  (Mosquitto 2.0 asks then; mhub refuses the CONNECT as well)
    subscribe    does the SUBACK accept the filter?

The columns are separated by two spaces or more, since names and topics may contain one.

`writer` may do everything, and is who writes and watches.  Where that would change the meaning
(`pattern deny`) the rules name what it may do.
"""

import re
from dataclasses import dataclass

WRITER = "writer"
ALL = f"\nuser {WRITER}\ntopic readwrite #\n"


@dataclass(frozen=True)
class Case:
    user: str  # "": none
    client_id: str
    action: str
    topic: str
    allowed: bool


@dataclass(frozen=True)
class Scenario:
    name: str
    acl: str
    cases: tuple[Case, ...]

    @property
    def users(self) -> list[str]:
        found = {case.user for case in self.cases} | {WRITER}
        return sorted(found - {""})


def _cases(text: str) -> tuple[Case, ...]:
    found = []
    for line in text.strip("\n").split("\n"):
        if not line.strip() or line.lstrip().startswith("//"):
            continue
        user, client_id, action, topic, decision = re.split(r"  +", line.strip())
        found.append(Case("" if user == "-" else user, client_id, action, topic, decision == "yes"))
        assert decision in ("yes", "no"), line
    return tuple(found)


def _scenario(name: str, acl: str, cases: str, writer: str = ALL) -> Scenario:
    return Scenario(name, acl + writer, _cases(cases))


SCENARIOS = (
    _scenario(
        "read, write and both",
        """\
# Comments, and lines with nothing on them, are skipped.

user alice
topic read in/alice
topic write out/alice
topic readwrite both/alice
topic plain/alice
""",
        """
        alice  a1  publish    in/alice       no
        alice  a1  receive    in/alice       yes
        alice  a1  retained   in/alice       yes
        alice  a1  will       in/alice       no
        alice  a1  publish    out/alice      yes
        alice  a1  receive    out/alice      no
        alice  a1  retained   out/alice      no
        alice  a1  will       out/alice      yes
        alice  a1  publish    both/alice     yes
        alice  a1  receive    both/alice     yes
        alice  a1  publish    plain/alice    yes
        alice  a1  receive    plain/alice    yes
        alice  a1  publish    other          no
        alice  a1  receive    other          no
        alice  a1  subscribe  other          yes
        alice  a1  subscribe  #              yes
        alice  a1  subscribe  in/alice       yes
        alice  a1  subscribe  in/+           yes
        alice  a1  shared     in/alice       yes
        alice  a1  shared     out/alice      no
        alice  a1  publish    in             no
        alice  a1  publish    in/alice/more  no
        alice  a1  publish    /out/alice     no
        alice  a1  publish    out/alice/     no
        bob    b1  publish    out/alice      no
        bob    b1  receive    in/alice       no
        bob    b1  subscribe  in/alice       yes
        bob    b1  will       out/alice      no
        -      x1  publish    out/alice      no
        -      x1  receive    in/alice       no
        """,
    ),
    _scenario(
        "wildcards",
        """\
user alice
topic read all/#
topic write one/+/end
topic readwrite +/middle/+
topic read /lead/#
topic write +
""",
        """
        alice  a1  receive           all            yes
        alice  a1  receive           all/x          yes
        alice  a1  receive           all/x/y/z      yes
        alice  a1  receive:#         all/x          yes
        alice  a1  receive:all/+     all/x          yes
        alice  a1  receive           allx           no
        alice  a1  receive:#         allx           no
        alice  a1  publish           all/x          no
        alice  a1  publish           one/x/end      yes
        alice  a1  publish           one//end       yes
        alice  a1  publish           one/x/y/end    no
        alice  a1  publish           one/end        no
        alice  a1  publish           one/x/end/z    no
        alice  a1  receive           one/x/end      no
        alice  a1  publish           a/middle/b     yes
        alice  a1  receive           a/middle/b     yes
        alice  a1  publish           /middle/b      yes
        alice  a1  publish           a/middle       no
        alice  a1  receive           /lead/x        yes
        alice  a1  receive           lead/x         no
        alice  a1  receive           /lead          yes
        alice  a1  publish           single         yes
        alice  a1  publish           sing/le        no
        alice  a1  receive           single         no
        alice  a1  retained          all/x          yes
        alice  a1  receive:+/+       one/x          no
        """,
    ),
    _scenario(
        "deny is stronger within a section, wherever it stands",
        """\
user alice
topic readwrite house/#
topic deny house/safe
topic deny house/+/secret/#
user bob
topic deny house/safe
topic readwrite house/#
user carol
topic deny #
topic readwrite house/#
user dave
topic readwrite house/safe
topic deny house/safe
""",
        """
        alice  a1  publish    house/x              yes
        alice  a1  receive    house/x              yes
        alice  a1  publish    house/safe           no
        alice  a1  receive    house/safe           no
        alice  a1  receive:#  house/safe           no
        alice  a1  subscribe  house/safe           yes
        alice  a1  will       house/safe           no
        alice  a1  publish    house/safe/inner     yes
        alice  a1  publish    house/a/secret       no
        alice  a1  publish    house/a/secret/b/c   no
        alice  a1  publish    house/a/b/secret     yes
        alice  a1  receive:#  house/a/secret/b     no
        bob    b1  publish    house/safe           no
        bob    b1  receive    house/safe           no
        bob    b1  publish    house/x              yes
        carol  c1  publish    house/x              no
        carol  c1  receive    house/x              no
        dave   d1  publish    house/safe           no
        dave   d1  receive    house/safe           no
        dave   d1  publish    house/x              no
        """,
    ),
    _scenario(
        "rules before the first user are for clients without a user name",
        """\
topic read public/#
topic write drop/+
topic deny public/not
user alice
topic read private/alice
""",
        """
        -      x1  receive    public/a        yes
        -      x1  receive    public/not      no
        -      x1  publish    public/a        no
        -      x1  publish    drop/x          yes
        -      x1  receive    drop/x          no
        -      x1  receive    private/alice   no
        -      x1  will       drop/x          yes
        -      x1  will       public/a        no
        -      x1  retained   public/a        yes
        -      x1  subscribe  #               yes
        alice  a1  receive    public/a        no
        alice  a1  publish    drop/x          no
        alice  a1  receive    private/alice   yes
        alice  a1  receive    public/not      no
        bob    b1  receive    public/a        no
        bob    b1  publish    drop/x          no
        """,
    ),
    _scenario(
        "patterns",
        """\
pattern read down/%c/#
pattern write up/%c/+
pattern readwrite users/%u/#
pattern read %u/inbox
pattern write dev-%c/%u-log
pattern readwrite twice/%c/%c
pattern read news/#
""",
        """
        alice  a1  receive    down/a1/x         yes
        alice  a1  receive    down/a1           yes
        alice  a1  receive    down/a2/x         no
        alice  a1  receive:#  down/a2/x         no
        alice  a1  publish    down/a1/x         no
        alice  a1  publish    up/a1/t           yes
        alice  a1  publish    up/a1/t/u         no
        alice  a1  publish    up/a2/t           no
        alice  a1  publish    up/%c/t           no
        alice  a1  publish    users/alice/x     yes
        alice  a1  receive    users/alice/x/y   yes
        alice  a1  publish    users/bob/x       no
        alice  a1  receive    alice/inbox       yes
        alice  a1  publish    alice/inbox       no
        alice  a1  receive    bob/inbox         no
        alice  a1  publish    dev-a1/alice-log  yes
        alice  a1  publish    dev-a1/bob-log    no
        alice  a1  publish    dev-/alice-log    no
        alice  a1  publish    twice/a1/a1       yes
        alice  a1  publish    twice/a1/a2       no
        alice  a1  receive    news/today        yes
        alice  a1  publish    news/today        no
        alice  a1  will       up/a1/gone        yes
        alice  a1  will       up/a2/gone        no
        bob    a1  receive    down/a1/x         yes
        bob    a1  publish    users/alice/x     no
        bob    b1  publish    users/bob/x       yes
        -      x1  receive    down/x1/y         yes
        -      x1  publish    up/x1/y           yes
        -      x1  publish    users//y          no
        -      x1  publish    users/x1/y        no
        -      x1  receive    news/today        yes
        """,
    ),
    _scenario(
        "names that look like wildcards or placeholders",
        """\
pattern readwrite own/%c/#
pattern readwrite mine/%u/#
user al ice
topic readwrite spaced
""",
        """
        alice    +      publish    own/x/y        no
        alice    #      publish    own/x          no
        alice    #      receive    own/x/y        no
        alice    a#     receive    own/a/y        no
        al+ce    a1     publish    mine/alice/y   no
        a#       a1     receive    mine/alice/y   no
        alice    %u     publish    own/alice/x    no
        alice    %u     publish    own/%u/x       yes
        %c       a1     publish    mine/a1/x      no
        %c       a1     publish    mine/%c/x      yes
        al ice   a1     publish    spaced         yes
        al ice   a1     publish    mine/al ice/x  yes
        alice    a1     publish    spaced         no
        null     a1     publish    mine/null/x    yes
        alice    a$b    publish    own/a$b/x      yes
        """,
    ),
    _scenario(
        "topics of users and patterns together",
        """\
pattern readwrite own/%u/#
user alice
topic read own/#
topic deny own/alice/locked
topic deny own/carol/#
user bob
topic deny #
user alice
topic write late/section
""",
        """
        alice  a1  publish    own/alice/x        yes
        alice  a1  receive    own/bob/x          yes
        alice  a1  publish    own/bob/x          no
        alice  a1  publish    own/alice/locked   no
        alice  a1  receive    own/alice/locked   no
        alice  a1  receive    own/carol/x        no
        alice  a1  publish    late/section       yes
        bob    b1  publish    own/bob/x          no
        bob    b1  receive    own/bob/x          no
        carol  c1  publish    own/carol/x        yes
        carol  c1  receive    own/carol/x        yes
        carol  c1  receive    own/alice/x        no
        -      x1  publish    own//x             no
        """,
    ),
    _scenario(
        "pattern deny",
        """\
pattern readwrite zone/%c/#
pattern deny zone/%c/locked/#
pattern deny zone/+/off
user alice
topic readwrite desk/#
""",
        """
        alice  a1  publish  zone/a1/x          yes
        alice  a1  receive  zone/a1/x          yes
        alice  a1  publish  zone/a1/locked     no
        alice  a1  publish  zone/a1/locked/x   no
        alice  a1  will     zone/a1/x          yes
        alice  a1  will     zone/a2/x          no
        alice  a1  publish  zone/a1/off        no
        alice  a1  publish  zone/a1/off/x      yes
        alice  a1  publish  desk/x             yes
        alice  a1  publish  zone/a2/x          no
        bob    b1  publish  zone/b1/x          yes
        bob    b1  publish  zone/b1/off        no
        -      x1  publish  zone/x1/x          yes
        -      x1  publish  zone/x1/locked/x   no
        """,
        f"\nuser {WRITER}\ntopic readwrite desk/#\ntopic readwrite zone/+/x\n",
    ),
    _scenario(
        "the broker's own topics",
        """\
user alice
topic read $SYS/#
user bob
topic readwrite #
user carol
topic read $SYS/broker/version
user dave
topic read +/broker/version
""",
        """
        alice  a1  receive                 $SYS/broker/version  yes
        alice  a1  receive:$SYS/broker/+   $SYS/broker/version  yes
        alice  a1  publish                 $SYS/x               no
        bob    b1  receive                 $SYS/broker/version  no
        bob    b1  receive:$SYS/#          $SYS/broker/version  no
        bob    b1  publish                 $SYS/x               no
        bob    b1  publish                 x                    yes
        carol  c1  receive                 $SYS/broker/version  yes
        carol  c1  receive                 $SYS/broker/uptime   no
        dave   d1  receive                 $SYS/broker/version  no
        -      x1  receive                 $SYS/broker/version  no
        """,
        f"\nuser {WRITER}\ntopic readwrite #\ntopic read $SYS/#\n",
    ),
    _scenario(
        "how lines are written",
        """\
  user   alice
  topic   read    spaces/before
topic read ends with blanks   \t
topic write a b/c d
topic readwrite  two  inner/x
topic read
topic deny
topic write 100%/%u
topic read (a)[b],"c"
topic read Großbuchstaben/ä
topic write a//b
topic write end/
user bob x
topic read for/bob
""",
        """
        alice  a1  receive  spaces/before        yes
        alice  a1  receive  ends with blanks     yes
        alice  a1  publish  a b/c d              yes
        alice  a1  publish  b/c d                no
        alice  a1  receive  read                 yes
        alice  a1  publish  read                 yes
        alice  a1  publish  deny                 yes
        alice  a1  receive  deny                 yes
        alice  a1  publish  100%/%u              yes
        alice  a1  publish  100%/alice           no
        alice  a1  receive  (a)[b],"c"           yes
        alice  a1  receive  Großbuchstaben/ä     yes
        alice  a1  receive  großbuchstaben/ä     no
        alice  a1  publish  a//b                 yes
        alice  a1  publish  a/b                  no
        alice  a1  publish  end/                 yes
        alice  a1  publish  end                  no
        bob x  b1  receive  for/bob              yes
        bob    b1  receive  for/bob              no
        """,
    ),
    _scenario(
        "no rule for anybody else",
        "# nothing but a comment\n",
        """
        alice  a1  publish    x   no
        alice  a1  receive    x   no
        alice  a1  subscribe  x   yes
        -      x1  publish    x   no
        """,
    ),
)

DIFFERENCES = _scenario(
    "what mhub decides otherwise, on purpose; here is what Mosquitto says",
    """\
pattern readwrite own/%c/#
pattern readwrite mine/%u/#
pattern read news/#
""",
    """
    // A value with a slash would be more than the level that the placeholder stands for.
    alice  a/b    publish  own/a/b/x      yes
    a/b    c1     publish  mine/a/b/x     yes
    // Who has wildcards in a name gets nothing by any pattern there, also by one without names.
    alice  a+b    receive  news/today     no
    alice  a#     publish  mine/alice/x   no
    al+ce  c1     publish  own/c1/x       no
    """,
)
