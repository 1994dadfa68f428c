"""The figures, drawn from stored records."""
