"""Commands that package a project for services that run its jobs."""
