"""A client's lines as messages of the SDK, and the SDK's messages as lines: what neither side may lose."""

from __future__ import annotations

import mcp_types as types
import structlog
from pydantic import ValidationError

from orchestrator.edge.request_limits import INVALID_REQUEST, is_deep, is_id, read_client, refusal
from orchestrator.edge.wire_format import rpc_error

log = structlog.get_logger()


def read(line: bytes) -> types.JSONRPCMessage:
    """The message of a client's line; raises ``RefusedLine`` also for what the SDK would drop or misread.

    A relay judges its client's lines the same way, and sends none that is refused here; others connect too.
    """
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        raw_message, line = read_client(line)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            raise refusal(raw_message, INVALID_REQUEST, "the line is no MCP message") from None
    if not isinstance(message, types.JSONRPCRequest) or not is_id(message.id) or is_deep(line, [message.params]):
        # The SDK takes a request with an id of a wrong type for a notification, and one with an error for an answer.
        read_client(line)
    return message


def written(message: types.JSONRPCMessage) -> bytes:
    """A message as its line. An answer that cannot be written, for half a character in it, becomes an error."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        log.exception("bug: a message cannot be written as JSON")
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return rpc_error(message.id, types.INTERNAL_ERROR, "the answer cannot be written as JSON")
        return b""
