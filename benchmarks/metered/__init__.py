"""One job of metered calls, written in five ways, against a service that counts by itself."""
