"""What the request models share: types of fields, known and unknown fields, texts of errors."""
