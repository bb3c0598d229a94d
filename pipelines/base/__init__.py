"""What every part builds on: errors, element types, cancellation, the cache folder, processes with bounds."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: the checkout, or site-packages."""
DISTRIBUTION = "braid-server"
"""The name under which pip knows them."""
