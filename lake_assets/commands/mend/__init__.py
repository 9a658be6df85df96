"""Commands that mend: `recover`, `restore`, `rebuild`, `full-load`, `quarantine`, `detach`."""
