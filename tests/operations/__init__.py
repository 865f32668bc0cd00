"""What can be asked of a running broker, and done to it, without any transport."""
