"""What engines and backends agree on: a step, sessions, errors of devices, guides."""
