"""Python functions in warm processes: the node's side, the process that watches one, and the one that runs them."""
