"""The program that talks to an agent over ACP: it runs where the agent runs, and prints what happens line by line."""
