"""One conformance suite per contract: call its checks for each implementation."""
