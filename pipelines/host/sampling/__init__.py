"""What a client may ask of sampling: parameters, the state of each row, and the stages that honour both."""
