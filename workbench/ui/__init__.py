"""What pages are drawn with: theme, cards, the address bar, friendly errors."""
