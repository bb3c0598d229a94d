"""SQLite files that all workers share: opening, transactions, leases, pages, calls off the event loop."""
