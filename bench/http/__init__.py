"""HTTP: servers to compare with, and clients that are faster than all of them."""
