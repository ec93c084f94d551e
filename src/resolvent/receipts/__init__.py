"""What a run leaves for people to keep: its report as one page that needs nothing else."""
