"""`mhub ctl`: what its commands ask, what they print where, and how they end."""
