"""What every part of the server builds on: settings, version, room on the disk."""
