UPDATE store SET boot = ?
