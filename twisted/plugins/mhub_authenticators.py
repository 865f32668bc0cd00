"""The authenticators that come with mhub: the types of `[[auth]]`, and where each is."""

from mhub.auth.plugins import LazyPlugin

anonymous = LazyPlugin("anonymous", "mhub.auth.anonymous")
certificate = LazyPlugin("certificate", "mhub.auth.certificate")
http = LazyPlugin("http", "mhub.auth.http")
mysql = LazyPlugin("mysql", "mhub.auth.mysql")
password_file = LazyPlugin("password-file", "mhub.auth.password_file")
postgresql = LazyPlugin("postgresql", "mhub.auth.postgresql")
redis = LazyPlugin("redis", "mhub.auth.redis")
registry = LazyPlugin("registry", "mhub.auth.registry_source")
