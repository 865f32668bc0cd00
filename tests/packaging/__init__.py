"""What is shipped: the package's contents, its two builds, and the fence between its packages."""
