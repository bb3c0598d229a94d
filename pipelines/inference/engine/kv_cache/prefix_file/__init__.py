"""The blocks of reused prefixes in a file, which is read again after a restart."""
