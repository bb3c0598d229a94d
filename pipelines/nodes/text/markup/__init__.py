"""Tags in text, as parsers of replies look for them."""
