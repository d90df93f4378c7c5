"""Tools of MCP servers, over the official SDK."""

from lattice.integrations.mcp.connection import MCPConnection, MCPConnectionError
from lattice.integrations.mcp.http import MCPStreamableHTTPConnection, connect_mcp_streamable_http_server
from lattice.integrations.mcp.stdio import MCPStdioConnection, connect_mcp_stdio_server
from lattice.integrations.mcp.tools import MCPClient, create_mcp_tools

__all__ = [
    "MCPClient",
    "MCPConnection",
    "MCPConnectionError",
    "MCPStdioConnection",
    "MCPStreamableHTTPConnection",
    "connect_mcp_stdio_server",
    "connect_mcp_streamable_http_server",
    "create_mcp_tools",
]
