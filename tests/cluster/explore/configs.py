"""What happens in each configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Config:
    about: str
    nodes: str = "ab"
    home: str = "a"  # where the subscriber is at first
    route: str = "b"  # where it goes then, one after the other
    publishers: Mapping[str, tuple[str, tuple[int, ...]]] = field(
        default_factory=lambda: {"p": ("a", (1,)), "q": ("b", (1,))}
    )  # name -> node, QoS of its messages
    before: int = 0  # messages of each that are published before the exploration
    unread: bool = False  # ... of which the subscriber reads nothing
    patient: bool = False  # it leaves a node only when it was let in
    takeover: bool = False  # it connects elsewhere without closing its connection first
    acks: str = "explored"  # when it answers; "publish": PUBREL at once; "eager": all
    cuts: tuple[tuple[str, str], ...] = ()
    crashes: str = ""
    times: tuple[int, ...] = ()
    late_notice: bool = False  # each end notices by itself that a link is gone
    excused: bool = False  # Session Present 0 may be
    slow: bool = False  # it may need time to come to rest
    durable: bool = True
    eager_disk: bool = False
    window: int = 4  # messages of a queue that a node holds in memory
    publish_window: int = 9
    patience_ticks: int = 30
    skews: Mapping[str, float] = field(default_factory=dict)


def _one(node: str, *qoss: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {"p": (node, qoss)}


def _two(
    node: str, qoss: tuple[int, ...], other: str, others: tuple[int, ...]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {"p": (node, qoss), "q": (other, others)}


CONFIGS = {
    # Two nodes that are well
    "near": Config("one move, one message published where it goes", publishers=_one("b", 2)),
    "far": Config("one move, one message published where it was", publishers=_one("a", 2)),
    "move": Config("one move, one message of each publisher"),
    "order": Config("one move, two messages", publishers=_one("b", 1, 2), acks="publish"),
    "order-far": Config("one move, two messages", publishers=_one("a", 1, 2), acks="publish"),
    "takeover": Config("no close before", takeover=True, publishers=_one("b", 1)),
    "waiting": Config(
        "a queue that is in the store alone, for the most part",
        publishers=_two("a", (2, 1, 1), "b", (1, 2)),
        before=2,
        unread=True,
        window=1,
        acks="eager",
    ),
    "back": Config("there and back, at any time", route="ba", publishers=_one("b", 1)),
    "back-far": Config("the same", route="ba", publishers=_one("a", 1)),
    "back-memory": Config(
        "there and back without stores",
        route="ba",
        durable=False,
        publishers=_two("a", (1,), "b", (1,)),
        acks="eager",
    ),
    "bab": Config("there, back, there", route="bab", publishers=_one("b", 1), acks="eager"),
    # Two nodes whose link breaks
    "cut": Config("a link breaks", cuts=(("a", "b"),), publishers=_one("b", 2), acks="eager"),
    "cut-far": Config("a link breaks", cuts=(("a", "b"),), publishers=_one("a", 2), acks="eager"),
    "cut-memory": Config(
        "a link breaks, no stores",
        cuts=(("a", "b"),),
        durable=False,
        publishers=_two("a", (1,), "b", (1,)),
        acks="eager",
    ),
    "cut-late": Config(
        "a link breaks, and each end notices by itself",
        cuts=(("a", "b"),),
        durable=False,
        publishers=_one("b", 1),
        acks="eager",
        late_notice=True,
    ),
    "cut-back": Config(
        "a link breaks, there and back",
        cuts=(("a", "b"),),
        route="ba",
        durable=False,
        publishers=_one("b", 1),
        acks="eager",
    ),
    "cut-time": Config(
        "a link breaks for longer",
        cuts=(("a", "b"),),
        times=(4,),
        durable=False,
        excused=True,
        slow=True,
        publishers=_one("b", 1),
        acks="eager",
    ),
    # Two nodes of which one crashes
    "crash-source": Config(
        "the source crashes", crashes="a", publishers=_one("b", 1), acks="eager", slow=True
    ),
    "crash-target": Config(
        "the target crashes",
        crashes="b",
        publishers=_one("a", 1),
        acks="eager",
        excused=True,
        slow=True,
    ),
    "crash-skew": Config(
        "the target crashes, and its clock is behind",
        crashes="b",
        publishers=_one("a", 1),
        acks="eager",
        excused=True,
        slow=True,
        skews={"b": -5.0},
    ),
    "crash-both": Config(
        "the target crashes, the link breaks",
        crashes="b",
        cuts=(("a", "b"),),
        publishers=_one("a", 1),
        acks="eager",
        excused=True,
        slow=True,
    ),
    # Three nodes
    "third": Config("publisher elsewhere", nodes="abc", publishers=_one("c", 1), acks="eager"),
    "third-memory": Config(
        "no stores", nodes="abc", publishers=_one("c", 1, 1), acks="eager", durable=False
    ),
    "third-cut": Config(
        "publisher elsewhere, cut off from the source",
        nodes="abc",
        publishers=_one("c", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "c"),),
        slow=True,
    ),
    "third-ab": Config(
        "the link of source and target breaks, the publisher is elsewhere",
        nodes="abc",
        publishers=_one("c", 2),
        acks="eager",
        durable=False,
        cuts=(("a", "b"),),
    ),
    "onward-cut": Config(
        "on to a third node, while the link of the first two breaks",
        nodes="abc",
        route="bc",
        publishers=_one("a", 2),
        acks="eager",
        durable=False,
        cuts=(("a", "b"),),
        patient=True,
        slow=True,
    ),
    "again": Config("connects twice", route="bb", publishers=_one("a", 1), acks="eager"),
    "onward": Config(
        "on to a third node",
        nodes="abc",
        route="bc",
        publishers=_one("a", 1),
        acks="eager",
        durable=False,
    ),
}
