"""The admin side over HTTP."""
