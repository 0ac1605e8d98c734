"""A report, a comparison, tables and trees as text: for a terminal, as Markdown, JSON or HTML. Functions of their documents."""
