"""Task systems side by side, each set up as its own documentation advises."""
