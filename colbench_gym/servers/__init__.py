"""Model servers: an HTTP client for any server that speaks OpenAI's API, or nearly does."""
