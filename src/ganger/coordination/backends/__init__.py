"""Where the versioned documents are kept: one module or folder for each kind of store."""
