"""What is fuzzed.  Each target takes any bytes; the first line of its docstring is its invariant.

What a target returns is everything that came of the bytes: two builds have to agree on it.
"""

from collections.abc import Callable
from typing import Any

from mhub.auth.scram import ScramExchange
from mhub.auth.users import Users, make_verifier
from mhub.core.authentication import CONTINUE, FAILURE
from mhub.net import sniff
from mhub.net.handshake import Accepted, Handshake
from mhub.net.layers import ProxyLayer, WebSocketLayer
from mhub.net.loop import LayerEnd
from mhub.wire import proxy
from mhub.wire.websocket import LARGEST_FRAME, Framer, WebSocketFault
from tests.auth.test_scram import Known
from tests.fuzz import portrait, script
from tests.fuzz.crowd import Crowd
from tests.helpers.splits import one_by_one

STEPS = 60
"""So many steps of a script are done: enough for any state, and no more time than that takes."""

LONGEST = 3000
"""So much is fed to what is tried at many splits."""

USERS = Known(Users({"user": make_verifier("password", 4096, b"0123456789abcdef")}), b"secret")


def decoder(data: bytes) -> object:
    """Any byte string gives packets or one ProtocolFault, never another exception."""
    version = 3 + (data[:1] or b"\0")[0] % 3
    return portrait.stream(data[1:], version)


def connection(data: bytes) -> object:
    """Any bytes, in any split, with time passing, from any number of clients at once: the others
    go on, nothing grows beyond its bound, nothing is written after a close, nothing else is raised,
    and nothing is left when they have gone."""
    setup, steps = script.decode(data)
    crowd = Crowd(setup)
    for action, piece in steps[:STEPS]:
        crowd.do(action, piece)
        crowd.check_bounds()
    crowd.check_others()
    transcript = crowd.transcript()
    crowd.check_words()
    crowd.check_residue()
    return transcript


def _ways(data: bytes) -> list[list[bytes]]:
    """The same bytes whole, one by one, and in pieces of seven."""
    return [[data], one_by_one(data), [data[at : at + 7] for at in range(0, len(data), 7)]]


def _agree(outcomes: list[Any]) -> Any:
    for other in outcomes[1:]:
        assert other == outcomes[0], (other, outcomes[0])
    return outcomes[0]


def framer(data: bytes) -> object:
    """Any bytes give the same payload, replies and end at any split; a fault is a WebSocketFault,
    and not more than a header or a control frame is held back."""
    most = (LARGEST_FRAME, 125, 70_000)[(data[:1] or b"\0")[0] % 3]
    return _agree([_frames(pieces, most) for pieces in _ways(data[1:LONGEST])])


def _frames(pieces: list[bytes], most: int) -> tuple[object, ...]:
    under_test = Framer(most)
    carried = b""
    for piece in pieces:
        try:
            carried += under_test.receive(piece)
        except WebSocketFault as fault:
            assert under_test.closed and 1000 <= fault.code < 1016
            under_test.close_frame(fault.code, fault.text)
            return carried + fault.carried, under_test.replies, fault.code, fault.text
    assert len(carried) <= sum(map(len, pieces))
    return carried, under_test.replies, under_test.closed, under_test.close_code


def proxy_header(data: bytes) -> object:
    """Any bytes give a header, a ProxyFault, or None while more may complete one; the verdict on a
    beginning is never taken back, and comes before 4.2 KB."""
    data = data[:LONGEST]
    verdict = _proxy(data)
    for size in (*range(min(len(data), 120)), *range(120, len(data), 97)):
        early = _proxy(data[:size])
        if early is not None:
            if early[0] == "fault":
                assert verdict is not None and verdict[0] == "fault", (early, verdict)
            else:
                assert verdict == early
    return verdict


def _proxy(data: bytes) -> tuple[Any, ...] | None:
    try:
        header = proxy.parse(data)
    except proxy.ProxyFault as fault:
        return "fault", fault.text
    if header is None:
        assert len(data) < 16 + proxy.MAX_V2
        return None
    assert 0 < header.length <= len(data)
    return header.length, header.host, header.port, header.tls, header.common_name


def handshake(data: bytes) -> object:
    """Any bytes give the same verdict at any split, or None while more are needed: never an
    exception, never more than the largest request is kept."""
    data = data[:LONGEST]
    return _agree([_upgrade(pieces) for pieces in _ways(data)])


def _upgrade(pieces: list[bytes]) -> tuple[Any, ...] | None:
    under_test = Handshake("/mqtt", ("https://a.example", "https://*.b.example"), 400)
    for number, piece in enumerate(pieces):
        verdict = under_test.receive(piece)
        if isinstance(verdict, Accepted):
            rest = verdict.rest + b"".join(pieces[number + 1 :])
            return verdict.response, verdict.subprotocol, verdict.host, rest
        if verdict is not None:
            assert verdict.text and len(verdict.text) < 500
            # The words for a stranger show as many of its bytes as were there.
            return verdict.response, verdict.status, verdict.text if verdict.status else ""
    return None


def layers(data: bytes) -> object:
    """Any bytes through PROXY header and WebSocket give the same MQTT bytes and last words at any
    split, and no exception but LayerEnd."""
    data = data[:LONGEST]
    return _agree([_climb(pieces) for pieces in _ways(data)])


def _climb(pieces: list[bytes]) -> tuple[object, ...]:
    stack = [ProxyLayer(), WebSocketLayer("/mqtt", (), 400)]
    carried = replies = b""
    for piece in pieces:
        ended = False
        for layer in stack:
            try:
                piece = layer.receive(piece)
            except LayerEnd as end:
                piece = end.carried
                assert end.text and len(end.text) < 500
                ended = True
            replies += layer.replies()
            if not piece:
                break
        carried += piece
        if ended:
            return carried, replies + b"".join(layer.close() for layer in stack), True
    return carried, replies, False


def scram(data: bytes) -> object:
    """Any messages give a Step each: nobody without the password gets in, a failure is final."""
    exchange = ScramExchange(USERS, "server-nonce")
    found = []
    for _, message in script.steps_of(data[:LONGEST]):
        step = exchange.step(message)
        found.append((step.outcome, step.data, step.text))
        assert step.outcome in (CONTINUE, FAILURE)
        assert step.identity is None and len(step.text) < 300
        assert len(step.data) <= len(message) + 200
    outcomes = [outcome for outcome, *_ in found]
    assert CONTINUE not in outcomes[1:], outcomes
    return found


def stranger(data: bytes) -> object:
    """Any first bytes are either a CONNECT's or have short, printable words for the log."""
    words = sniff.describe(data)
    assert (words is None) == (not data or (data[0] >> 4 == 1 and data[0] != 0x16))
    assert bool(sniff.kind(data)) == (words is not None)
    assert words is None or (len(words) < 200 and words.isprintable())
    return words


TARGETS: dict[str, Callable[[bytes], object]] = {
    "decoder": decoder,
    "connection": connection,
    "framer": framer,
    "proxy_header": proxy_header,
    "handshake": handshake,
    "layers": layers,
    "scram": scram,
    "stranger": stranger,
}

COMPILED = ("decoder", "connection", "framer", "proxy_header")
"""Those on which two builds can differ."""
