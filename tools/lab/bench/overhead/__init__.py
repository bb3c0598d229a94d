"""What short requests cost beside their models, in two checkouts of Braid."""
