"""What measures, checks and documents Braid, for people who change it: no command of `braid` needs it.

It stays out of the wheel.
"""
