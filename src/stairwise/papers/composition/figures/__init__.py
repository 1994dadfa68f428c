"""The paper's figures and ours, drawn from stored records."""
