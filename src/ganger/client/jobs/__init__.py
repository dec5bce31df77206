"""A worker at the jobs door: it takes payloads over a websocket, and has a function or a program solve them."""
