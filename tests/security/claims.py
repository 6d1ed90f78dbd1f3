"""Which tests stand behind each sentence of docs/trust.md."""

CLAIMS: dict[str, tuple[str, ...]] = {}
