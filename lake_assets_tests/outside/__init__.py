"""Random histories in which operators, storage and other tools act on the lake between its turns."""
