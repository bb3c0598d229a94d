"""What the pooling demos are trained on: questions and passages, reviews, and texts of ten topics.

Everything comes from tables, phrasings and a seed.
"""
