"""Labels that grow: what to judge next, who judged what on which text, how far judges agree, models kept apart."""
