"""The jobs protocol without IO: what clients and workers send, and what they are answered."""
