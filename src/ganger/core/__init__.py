"""The vocabulary and the laws: pure values and functions, standard library only."""
