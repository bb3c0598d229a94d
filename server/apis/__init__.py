"""The endpoints by family; the table of their paths is in `routes.py`."""
