"""The configuration: what is in force, what is wrong with a text, and reloading the file."""

from typing import Annotated

from mhub.admin.endpoint import Body, Call, endpoint
from mhub.operations.steering import Configuration, ConfigurationCheck, Reloaded


@endpoint("GET", "/configuration", resource="configuration")
async def configuration(call: Call) -> Configuration:
    """Show the configuration in force.

    Secrets are replaced by `***`. `needs_restart` names what the file says and a reload could not
    take.
    """
    return call.operations.configuration()


@endpoint("POST", "/configuration/check", resource="configuration", writes=False)
async def check_configuration(
    call: Call, text: Annotated[str, Body("The configuration, as TOML.", longest=200_000)]
) -> ConfigurationCheck:
    """Check a configuration without applying it.

    The files that it names, as certificates, are not looked at.
    """
    return await call.operations.check_configuration(text)


@endpoint("POST", "/configuration/reload", resource="configuration", codes=(409,))
async def reload_configuration(call: Call) -> Reloaded:
    """Reload the configuration file, as SIGHUP does.

    It is applied as a whole, or refused as a whole with everything that is wrong (409).
    """
    return await call.operations.reload()
