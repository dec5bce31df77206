"""What every loop stands on: the clock, the entropy and the one shape of a service."""
