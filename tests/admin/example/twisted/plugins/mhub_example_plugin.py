"""Where Twisted looks for plugins."""

from mhub_example import PLUGIN

plugin = PLUGIN
