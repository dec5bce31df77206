"""Where work runs: the node, its executors, and the guardian that owns their children."""
