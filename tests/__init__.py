"""mhub's tests: they mirror mhub/, one directory a room; `run.py` runs them on both builds."""
