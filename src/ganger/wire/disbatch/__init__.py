"""The Disbatch protocol of command nodes, without IO."""
