"""Commands in processes of their own."""

import subprocess


def said(*command, folder=None, env=None):
    """What a command prints that ends well; AssertionError with all that it wrote if it fails."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(folder, *words):
    """What git prints in a folder, whoever the user is."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return said("git", *who, *words, folder=folder)
