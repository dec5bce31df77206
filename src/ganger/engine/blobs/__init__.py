"""Places for large content, one module each."""
