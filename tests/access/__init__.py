"""mhub.access: what a client may do, and why."""
