"""What a server does now and did lately, as one JSON object for people and programs that watch it."""
