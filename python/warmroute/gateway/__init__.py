"""The live router: the relay's sockets wired to the router's decisions."""
