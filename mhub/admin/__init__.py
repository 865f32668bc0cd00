"""The admin side over HTTP, by Klein: REST, numbers, MQTT over HTTP, the dashboard.

endpoint    functions as endpoints: what a request may bring, and what is checked of it
resources/  the endpoints, a module for each resource
"""
