"""Bridges to other people's tools: data, weights, models."""
