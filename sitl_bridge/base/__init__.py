"""What every room uses: errors, files, units, processes, numerics."""
