"""What the system does: submit, claim, settle, renew, inspect, explain, and the upkeep behind them."""
