"""Read ``_config.yml``: links that need the address of the repository or of the site appear only where it is known."""

import re
from pathlib import Path

import yaml

GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(\.git)?/?")


def settings(text):
    """``_config.yml`` as it is in force: links that need an address only where there is one."""
    config = yaml.safe_load(text)
    page = config.setdefault("html", {})
    page["use_repository_button"] = page["use_issues_button"] = bool(config.get("repository", {}).get("url"))
    if not page["use_repository_button"]:
        config.pop("repository", None)
        config.pop("launch_buttons", None)
    if site := site_of(config):
        page["baseurl"] = site
        config.setdefault("sphinx", {}).setdefault("config", {})["ogp_site_url"] = site + "/"
    return config


def site_of(config):
    """Address of the published site, GitHub's own for the repository unless another is set; or None."""
    url = config.get("repository", {}).get("url", "")
    github = GITHUB.fullmatch(url)
    return config.get("html", {}).get("baseurl") or (github and f"https://{github[1]}.github.io/{github[2]}")


def repository():
    """Address of the repository, "" while none is set."""
    return yaml.safe_load(Path("_config.yml").read_text("utf-8")).get("repository", {}).get("url", "").rstrip("/")


def published(file):
    """Where a file of the published site is on GitHub: repository, branch and path; no repository while none is set."""
    repository = yaml.safe_load(Path("_config.yml").read_text("utf-8")).get("repository", {})
    github = GITHUB.fullmatch(repository.get("url", ""))
    place = f"{github[1]}/{github[2]}" if github else ""
    return {"place": place, "branch": repository.get("branch", ""), "file": file}
