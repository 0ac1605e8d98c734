"""Analyses: each file answers one question with a pure function of the trace, computed once per trace (`Trace.analysis`)."""
