"""Which backend gets which node: claims, rules, regions, and the plan that records them."""
