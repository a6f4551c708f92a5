"""The widget: its messages, its one worker thread, and the page that it shows."""
