"""Checks of `[cluster]` that need more than one key, or files."""

from collections.abc import Sequence

from mhub.config.certificates import (
    can_be_certified,
    check_tls,
    fault_for,
    first_in,
    names_in,
    warn_if_open,
)
from mhub.config.cluster import EVERY_ADDRESS, MIN_SECRET, ClusterSettings, ClusterTlsSettings
from mhub.config.kinds import Place
from mhub.config.listeners import collide
from mhub.config.settings import ListenerSettings, TlsSettings
from mhub.config.units import show_duration


def check_cluster(
    cluster: ClusterSettings, listeners: Sequence[ListenerSettings], place: Place
) -> None:
    """Report what would keep a node from starting, or from finding and trusting others."""
    _check_address(cluster, listeners, place)
    _check_secret(cluster, place)
    _check_times(cluster, place)
    if cluster.tls is None:
        return
    if cluster.node and not can_be_certified(cluster.node):
        place.at("node").wrong(
            f"expected a name that a certificate can be for, as there is cluster.tls, found"
            f' "{cluster.node}": a number could be an address; put a letter before it'
        )
    else:
        _check_certificate(cluster.tls, cluster.node, place.at("tls"))


def _check_address(
    cluster: ClusterSettings, listeners: Sequence[ListenerSettings], place: Place
) -> None:
    if cluster.host in EVERY_ADDRESS and not cluster.advertise and _is_unsaid(place, "advertise"):
        place.at("advertise").wrong(
            f'missing; host = "{cluster.host}" does not tell the other nodes where this one is:'
            ' expected "host:port"'
        )
    own = ListenerSettings(host=cluster.host, port=cluster.port)
    for index, listener in enumerate(listeners):
        if listener.transport != "unix" and collide(own, listener):
            place.at("port").wrong(f"listeners[{index}] listens on {listener.address} already")
            return


def _check_secret(cluster: ClusterSettings, place: Place) -> None:
    at = place.at("secret_file" if cluster.secret_file else "secret")
    if cluster.secret and cluster.secret_file:
        at.wrong("not together with secret")
        return
    if not cluster.secret and not cluster.secret_file:
        if cluster.tls is None and all(
            _is_unsaid(place, name) for name in ("secret", "secret_file", "tls")
        ):
            at.wrong(
                "missing; a cluster needs secret, secret_file or tls,"
                " so that only its own nodes can join"
            )
        return
    if cluster.secret_file and not place.report.reads_files:
        return
    try:
        secret = cluster.read_secret()
    except OSError as error:
        at.wrong(f"cannot read {cluster.secret_file}: {error.strerror}")
        return
    except ValueError:
        at.wrong(f"expected text, found something else in {cluster.secret_file}")
        return
    if len(secret) < MIN_SECRET:
        # What was found is not shown: it may be most of a secret.
        where = f" in {cluster.secret_file}" if cluster.secret_file else ""
        at.wrong(f"expected at least {MIN_SECRET} characters, found {len(secret)}{where}")
    if cluster.secret_file:
        warn_if_open(cluster.secret_file, at)


def _check_times(cluster: ClusterSettings, place: Place) -> None:
    for name, relation, other in (
        ("suspect_s", "more than", "heartbeat_s"),
        ("dead_s", "more than", "suspect_s"),
        ("retry_max_s", "at least", "retry_s"),
    ):
        found, bound = getattr(cluster, name), getattr(cluster, other)
        fine = found > bound or (found == bound and relation == "at least")
        if not fine and _is_unsaid(place, name) and _is_unsaid(place, other):
            place.at(name).wrong(
                f"expected {relation} {other}, which is {show_duration(bound)},"
                f" found {show_duration(found)}"
            )


def _check_certificate(tls: ClusterTlsSettings, node: str, place: Place) -> None:
    before = len(place.report.problems)
    check_tls(TlsSettings(tls.certificate, tls.key, ca=tls.ca), place)
    if len(place.report.problems) > before or not tls.certificate or not node:
        return
    if not place.report.reads_files:
        return
    certificate = first_in(tls.certificate)
    fault = fault_for(certificate, node)
    if fault is None:
        return
    names = names_in(certificate)
    shown = ", ".join(names) or "no name at all"
    why = f": {fault}" if fault and names else ""
    place.at("certificate").wrong(
        f'expected a certificate for the name of the node, "{node}"; {tls.certificate} is for'
        f" {shown} (as a DNS name among its subject alternative names){why}"
    )


def _is_unsaid(place: Place, name: str) -> bool:
    """Whether nothing was reported about a key yet."""
    return not place.report.covers(place.at(name).path)
