"""The Disbatch door: the routes of a command node, over whatever store there is."""
