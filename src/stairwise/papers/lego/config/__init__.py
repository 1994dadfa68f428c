"""The configs of the paper: task, practical decoder, theory model and its dynamics."""
