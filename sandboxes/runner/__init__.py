"""What runs inside a sandbox: standard library only. The host sends these files as text and never imports them."""
