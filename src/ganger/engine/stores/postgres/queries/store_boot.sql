UPDATE store SET boot = $1
