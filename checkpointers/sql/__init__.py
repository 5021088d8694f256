"""What the SQL backends are made of: tables, fixed statements, migrations, and SQLite's connections."""
