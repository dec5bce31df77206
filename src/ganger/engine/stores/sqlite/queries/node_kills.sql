SELECT id FROM task WHERE holder = ? AND kill = 1
