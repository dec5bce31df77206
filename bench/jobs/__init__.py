"""Jobs through websocket workers, beside a server that sends the same frames and does nothing else."""
