"""What the rehearsal forge holds in the shapes of GitHub's REST: holdings in, JSON out. Pure."""
