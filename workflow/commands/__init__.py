"""What make calls, a module for each command: python -m workflow.commands.build."""
