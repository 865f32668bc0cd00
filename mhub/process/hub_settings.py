"""What of the configuration is the core's, in its own terms."""

from mhub import __version__
from mhub.config import Settings
from mhub.core.hub import HubSettings


def hub_settings(settings: Settings) -> HubSettings:
    wanted = HubSettings()
    wanted.version = __version__
    wanted.route_cache_size = settings.broker.route_cache_size
    wanted.max_sessions = settings.broker.max_sessions
    wanted.max_retained_messages = settings.broker.max_retained_messages
    wanted.max_retained_bytes = settings.broker.max_retained_bytes
    wanted.max_queued_bytes_total = settings.broker.max_queued_bytes_total
    wanted.max_partial_bytes = settings.broker.max_partial_bytes
    # What holds for all; a listener may allow less.
    limits = [settings.limits, *(listener.limits for listener in settings.listeners)]
    wanted.max_topic_levels = max(each.max_topic_levels for each in limits)
    wanted.overload_drift_s = settings.net.overload_drift_s
    wanted.max_wildcard_patterns = settings.broker.max_wildcard_patterns
    wanted.work_per_turn = settings.net.deliveries_per_turn
    wanted.portion = settings.net.portion
    wanted.sys_interval_s = settings.sys.interval_s
    if settings.access is not None:
        wanted.denied_publish = settings.access.denied_publish
        wanted.tell_withdrawn = settings.access.tell_withdrawn
        wanted.publish_cache_size = settings.access.publish_cache_size
    return wanted
