"""Stores: one suite over all of them, and what is special about each."""
