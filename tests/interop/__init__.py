"""Other people's test suites, run against mhub.  They are not part of this project: see `suites`."""
