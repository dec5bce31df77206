"""What all doors that speak HTTP share."""
