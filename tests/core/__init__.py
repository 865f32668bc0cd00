"""The core without a network: `world` has a hub and clients whose sockets are lists."""
