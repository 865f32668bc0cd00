"""The process as a whole: tests of mhub.process; tests/system/test_run.py has real processes."""
