"""From a request to stored trials: plan, execute, share, show progress."""
