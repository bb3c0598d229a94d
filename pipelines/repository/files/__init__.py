"""Files of a repository: reading them, versions, notes, words of YAML."""
