"""lanewise."""
