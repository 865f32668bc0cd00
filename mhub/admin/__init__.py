"""The admin side over HTTP, by Klein: REST, numbers, MQTT over HTTP, the dashboard.

    HTTP -> service (listener) -> app -> gate -> endpoint -> resources/ -> Operations
    control socket ------------> app (the same, for local callers)

endpoint    functions as endpoints: what a request may bring, and what is checked of it
metrics/    the numbers as Prometheus reads them
resources/  the endpoints, a module for each resource
app         from a request to its endpoint and back, by Klein
audit       changes as events: who, what, why
progress    what takes a while, as lines of JSON
gate        rate, identity, origin, permission
caller      who asks, and what they may
logins      passwords, sessions
first_user  the user `admin` of the first start
problem     errors as problem+json
openapi     the OpenAPI document of all endpoints; reference: docs/admin-api.md, made from it
static      the files of the dashboard
service     the listener
wiring      all of it for one broker: made, opened, reloaded, stopped

Nothing here knows how the broker does what is asked: that is `mhub.operations`.
"""
