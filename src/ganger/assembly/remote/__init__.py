"""An engine that is far away, behind a server: the same operations, over HTTP."""
