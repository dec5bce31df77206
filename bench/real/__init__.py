"""Tasks that take a while, as real ones do: shared by nodes, urgent among long ones, and in bursts."""
