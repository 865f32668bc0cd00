"""Who a client is: tests of mhub.auth."""
