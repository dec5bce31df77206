"""The doors: each parses, calls an operation of the engine, and replies. No rule about tasks lives here."""
