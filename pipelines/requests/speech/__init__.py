"""The fields of transcriptions and translations."""
