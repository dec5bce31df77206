"""Websockets (RFC 6455) as bytes: the opening handshake, and frames that are handed on piece by piece."""
