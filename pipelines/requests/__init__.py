"""The fields of requests as clients name them, and what they become: the input of a task."""
