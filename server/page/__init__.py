"""The files of the status page: HTML, a style sheet and modules, served as they are."""
