"""Code that runs inside a sandbox. It uses only the standard library. The host sends these files as text and never imports them."""
