"""What stands behind the pages, without a screen: addresses as values, work, what is shown as plain values."""
