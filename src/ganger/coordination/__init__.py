"""How many machines agree: locks, leaders, members and partitions, over small versioned documents and nothing else."""
