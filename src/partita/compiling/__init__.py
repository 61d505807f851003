"""Compiling: from a plan to a partitioned model or to a program."""
