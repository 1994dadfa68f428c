"""Stairwise for people who work in other libraries; each module needs its library, and says so where it is absent."""
