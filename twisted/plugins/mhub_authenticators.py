"""The authenticators that come with mhub, for Twisted's search; `mhub.auth.plugins` lists them."""

from mhub.auth.plugins import OWN

globals().update({kind.replace("-", "_"): plugin for kind, plugin in OWN.items()})
