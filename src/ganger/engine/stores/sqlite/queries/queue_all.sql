SELECT id, name, policy, paused_until, batch, batch_fill FROM queue
