"""What is known of a model without running it: shapes, dtypes, constants, costs."""
