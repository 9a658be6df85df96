"""The batch log: a row for each batch, which stays when the snapshot of its commit has expired."""
