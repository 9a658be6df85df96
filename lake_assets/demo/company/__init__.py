"""The bike-sharing company: its riders, stations, trips and workshop."""
