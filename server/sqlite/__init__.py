"""SQLite files that all workers share: opening them, transactions, leases, and calls off the event loop."""
