"""Running: the program that a plan becomes, its profile, and comparing two runs."""
