"""Read ``_config.yml``: links that need the address of the repository or of the site appear only where it is known."""

import re

import yaml


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
    return config


def site_of(config):
    """Address of the published site, GitHub's own for the repository unless another is set; or None."""
    url = config.get("repository", {}).get("url", "")
    github = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)(\.git)?/?", url)
    return config.get("html", {}).get("baseurl") or (github and f"https://{github[1]}.github.io/{github[2]}")
