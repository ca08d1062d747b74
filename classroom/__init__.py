"""What teaches the series: checks, explorers, figures, slides, the doctor."""
