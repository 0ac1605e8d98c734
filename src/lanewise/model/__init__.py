"""A trace in memory: columns by one schema, frames, intervals, nesting, what to know about it (`notes`)."""
