"""The systems that Ganger is measured beside, each set up as its own documentation advises."""
