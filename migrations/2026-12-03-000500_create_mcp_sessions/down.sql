drop table mcp_sessions;
