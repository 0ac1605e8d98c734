"""What somebody expects of a trace, beside what it shows: guesses in words, and expectations that are kept in a file."""
