"""Suites that others wrote, run against mhub.  They are not part of this project."""
