"""Research tools on flights: campaigns, identification, environments."""
