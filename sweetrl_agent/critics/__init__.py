"""What scores an agent's turns once it is trained: by log-ratios, by heads, by a judge. `trainers.critic` trains the first, `core.critic` is the interface."""
