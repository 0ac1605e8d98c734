"""A second, slow and simple implementation of the report's figures, and traces to compare the two on.

Written from the definitions alone (`docs/`, and what Kineto writes), with dictionaries and loops, exact integers and no code of
lanewise: where the two differ, one of them is wrong.
"""
