"""`twistd mhub`: names `mhub.tap` without importing it, so that twistd stays quick without it."""

from twisted.application.service import ServiceMaker

mhub = ServiceMaker("mhub", "mhub.tap", "An MQTT broker.", "mhub")
