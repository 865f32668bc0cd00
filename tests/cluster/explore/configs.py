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
    moves: str = ""  # where publisher p goes, one node after the other, with its session
    before: int = 0  # messages of each that are in the queue when the exploration begins
    patient: bool = False  # it leaves a node only when it was let in
    adds: str = ""  # a topic that it subscribes to when it is let in for the second time
    takeover: bool = False  # it connects elsewhere without closing its connection first
    acks: str = "explored"  # when it answers; "publish": PUBREL at once; "eager": all
    cuts: tuple[tuple[str, str], ...] = ()
    crashes: str = ""
    times: tuple[int, ...] = ()
    late_notice: bool = False  # each end notices by itself that a link is gone
    excused: bool = False  # Session Present 0 may be, where nodes were apart
    gaps: bool = False  # and once a node has crashed, or time has passed: then with a loss
    scripted: bool = False  # for schedules that are kept: it excuses too little for all others
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
    "order": Config("one move, two messages", publishers=_one("b", 2, 2), acks="publish"),
    "order-far": Config("one move, two messages", publishers=_one("a", 2, 2), acks="publish"),
    "takeover": Config("no close before", takeover=True, publishers=_one("b", 1)),
    "waiting": Config(
        "a queue that is in the store alone, for the most part",
        publishers=_one("a", 2, 2, 2, 2),
        before=2,
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
    # Two nodes that are apart for so long that the client gets a new session
    "split": Config(
        "the older one is emptied into it",
        cuts=(("a", "b"),),
        times=(4,),
        durable=False,
        publishers=_one("b", 2, 2),
        acks="eager",
        excused=True,
        slow=True,
    ),
    "split-back": Config(
        "and goes back to the older one",
        route="ba",
        cuts=(("a", "b"),),
        times=(4, 1),
        durable=False,
        publishers=_one("b", 2),
        acks="eager",
        patient=True,
        excused=True,
        slow=True,
    ),
    "split-bab": Config(
        "there, back, there, with stores of which one is slow",
        route="bab",
        cuts=(("a", "b"),),
        times=(11,),
        publishers=_one("a", 1),
        acks="eager",
        excused=True,
        slow=True,
    ),
    # Two nodes of which one crashes
    "crash-source": Config(
        "the source crashes", crashes="a", publishers=_one("b", 1), acks="eager", slow=True
    ),
    "crash-source-far": Config(
        "the source crashes, and publishes",
        crashes="a",
        publishers=_one("a", 2),
        acks="eager",
        slow=True,
    ),
    # A client that connects to a target which is back before its link is, or to the source while
    # the target is down, may be told Session Present 0: who has its session cannot be asked.
    "crash-target": Config(
        "the target crashes",
        crashes="b",
        publishers=_one("a", 1),
        acks="eager",
        excused=True,
        slow=True,
    ),
    "crash-target-queue": Config(
        "the same with a queue",
        crashes="b",
        publishers=_one("a", 2, 2, 1),
        before=2,
        window=1,
        acks="eager",
        excused=True,
        slow=True,
    ),
    "crash-source-back": Config(
        "the source crashes, the link breaks, there and back",
        route="ba",
        crashes="a",
        cuts=(("a", "b"),),
        publishers=_one("b", 2, 2),
        acks="eager",
        patient=True,
        excused=True,  # a client that is back before the link is finds nobody to ask
        slow=True,
    ),
    "crash-split": Config(
        "the client gets a new session, and its node crashes",
        crashes="b",
        cuts=(("a", "b"),),
        times=(4,),
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
    "onward-all": Config(
        "to all nodes and back, with one more subscription",
        nodes="abc",
        route="bcab",
        publishers={"q": ("c", (1,))},
        adds="t/q",
        acks="eager",
        durable=False,
    ),
    "onward-twice": Config(
        "there, back, there, without stores",
        route="bab",
        publishers=_one("b", 1, 1),
        acks="eager",
        durable=False,
    ),
    # Three nodes, of which the one that publishes is cut off while the session moves
    "away": Config(
        "the publisher is cut off from source and target",
        nodes="abc",
        publishers=_one("c", 1),
        acks="eager",
        durable=False,
        cuts=(("a", "c"), ("b", "c")),
    ),
    "away-back": Config(
        "the same, there and back",
        nodes="abc",
        route="ba",
        publishers=_one("c", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "c"), ("b", "c")),
        patient=True,
    ),
    "away-back-one": Config(
        "there and back, one link of the publisher breaks",
        nodes="abc",
        route="ba",
        publishers=_one("c", 2, 2),
        acks="eager",
        durable=False,
        cuts=(("a", "c"),),
        patient=True,
    ),
    "away-bab": Config(
        "there, back, there",
        nodes="abc",
        route="bab",
        publishers=_one("c", 2, 2),
        acks="eager",
        durable=False,
        cuts=(("a", "c"), ("b", "c")),
        patient=True,
    ),
    "away-on": Config(
        "on to the publisher's node itself, which was cut off from both",
        nodes="abc",
        route="bc",
        publishers=_one("c", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "c"), ("b", "c")),
        patient=True,
        excused=True,  # when c is linked with nobody, it cannot know who has the session
        slow=True,
    ),
    "away-durable": Config(
        "the publisher is cut off from source and target, with stores",
        nodes="abc",
        publishers=_one("c", 2),
        acks="eager",
        cuts=(("a", "c"), ("b", "c")),
        eager_disk=True,
    ),
    "away-four": Config(
        "on to a third node, while a fourth publishes that is cut off from all",
        nodes="abcd",
        route="bc",
        publishers=_one("d", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "d"), ("b", "d"), ("c", "d")),
        patient=True,
    ),
    # The publisher goes from node to node as well
    "publisher": Config(
        "it moves", publishers=_one("a", 2, 2), moves="b", acks="eager", durable=False
    ),
    "publisher-third": Config(
        "it moves to where the subscriber comes from",
        nodes="abc",
        publishers=_one("c", 2, 2),
        moves="a",
        acks="eager",
        durable=False,
    ),
    "publisher-away": Config(
        "it moves while its first node is cut off from the source",
        nodes="abc",
        publishers=_one("c", 2, 2),
        moves="b",
        acks="eager",
        durable=False,
        cuts=(("a", "c"),),
    ),
    # What does not hold with four nodes (docs/peer-protocol.md) would be found here.
    "publisher-four": Config(
        "both move, between nodes that are cut off from each other",
        scripted=True,
        nodes="abcd",
        route="ba",
        publishers=_one("d", 2, 2),
        moves="c",
        acks="eager",
        durable=False,
        patient=True,
        cuts=(("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")),
    ),
    # Three nodes: the link of source and target breaks, between END and DONE as well
    "doubt-third": Config(
        "with stores, and two messages",
        nodes="abc",
        publishers=_one("c", 2, 2),
        acks="eager",
        cuts=(("a", "b"),),
        eager_disk=True,
    ),
    "doubt-third-back": Config(
        "and back, while it is not clear who has the session",
        nodes="abc",
        route="ba",
        publishers=_one("c", 2),
        acks="eager",
        durable=False,
        cuts=(("a", "b"),),
        excused=True,  # b gives its claim up after some time, and so does a
        slow=True,
    ),
    # Whoever waits for a source in doubt waits for `suspect_s`: then there may be a gap.
    "doubt-time": Config(
        "for longer",
        nodes="abc",
        publishers=_one("c", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "b"),),
        times=(4,),
        excused=True,
        gaps=True,
        slow=True,
    ),
    "slow-third": Config(
        "the link of source and target is so slow that the target gives up",
        nodes="abc",
        route="bcb",
        publishers=_one("c", 2),
        acks="eager",
        durable=False,
        times=(11, 11),
        scripted=True,
        excused=True,
        slow=True,
    ),
    "split-third": Config(
        "the client gets a new session, the publisher is cut off from one of both",
        nodes="abc",
        publishers=_one("c", 1, 1),
        acks="eager",
        durable=False,
        cuts=(("a", "b"), ("a", "c")),
        times=(4,),
        excused=True,
        gaps=True,
        slow=True,
    ),
    "split-gap": Config(
        "it finds the older one at a node that does not know of the new one yet",
        nodes="abc",
        route="bc",
        publishers=_one("b", 2),
        acks="eager",
        durable=False,
        cuts=(("a", "b"),),
        times=(4, 2),
        patient=True,
        excused=True,
        gaps=True,
        slow=True,
    ),
    "split-told": Config(
        "it goes back to the older one, and is told when the others are back",
        nodes="abc",
        route="ca",
        publishers=_one("b", 2, 2),
        acks="eager",
        durable=False,
        cuts=(("a", "b"), ("a", "c")),
        times=(4, 1),
        patient=True,
        excused=True,
        gaps=True,
        slow=True,
    ),
    # Three nodes of which one crashes
    "crash-third-source": Config(
        "the source",
        nodes="abc",
        crashes="a",
        publishers=_one("c", 2, 2),
        acks="eager",
        slow=True,
        eager_disk=True,
    ),
    "crash-third-target": Config(
        "the target",
        nodes="abc",
        crashes="b",
        publishers=_one("c", 2, 2),
        acks="eager",
        excused=True,  # a may be asked while b, which may have the session, is not there
        slow=True,
        eager_disk=True,
    ),
    "crash-third-publisher": Config(
        "the publisher's node",
        nodes="abc",
        crashes="c",
        publishers=_one("c", 2, 2),
        acks="eager",
        slow=True,
        eager_disk=True,
    ),
    "crash-third-disk": Config(
        "the source, at any moment of its disk's work",
        nodes="abc",
        crashes="a",
        publishers=_one("c", 2),
        acks="eager",
        slow=True,
    ),
}
