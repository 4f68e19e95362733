"""What runs inside a sandbox: standard library only. The host sends these files to the runner as text and never imports them."""
