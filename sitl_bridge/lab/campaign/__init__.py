"""Many flights of one scenario with varied values: designs, searches, engines that fly them, and results."""
