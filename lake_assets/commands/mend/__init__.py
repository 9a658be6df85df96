"""Commands that repair a lake: `recover`, `restore`, `rebuild`, `full-load`, `quarantine`, `detach`."""
