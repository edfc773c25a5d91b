"""Reading: which answer a text states, by candidates with evidence for and against."""
