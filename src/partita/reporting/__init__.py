"""Reporting: plans and figures as lines, tables, HTML and JSON."""
