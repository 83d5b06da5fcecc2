"""The weight surface on screen."""
