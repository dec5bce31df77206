"""What executes tasks, one module for each way."""
