"""Which plugins there are."""

from dataclasses import dataclass

from mhub.admin.endpoint import Call, endpoint


@dataclass(frozen=True)
class PluginSummary:
    name: str
    title: str  # of its page in the dashboard; "": it has none
    script: str  # the path of that page's ES module; "": it has none
    endpoints: tuple[str, ...]  # method and path


@dataclass(frozen=True)
class PluginList:
    plugins: tuple[PluginSummary, ...]


@endpoint("GET", "/plugins", scope="read")
async def plugins(call: Call) -> PluginList:
    """List the admin plugins that the caller may use."""
    gate = call.gate
    return PluginList(
        tuple(
            PluginSummary(
                each.name,
                each.title,
                each.script_path,
                tuple(f"{one.method} {one.path}" for one in each.endpoints),
            )
            for each in gate.plugins.all
            if gate.may(call.caller, "read", each.resource)
        )
    )
