"""What flows between nodes: values, and the tasks with the inputs of their requests."""
