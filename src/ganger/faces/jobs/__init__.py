"""The jobs door: jobs are bytes that come over HTTP, workers are programs that open a websocket."""
