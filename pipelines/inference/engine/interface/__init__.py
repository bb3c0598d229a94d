"""What an engine is to those that submit requests to it: submissions, outputs, checks."""
