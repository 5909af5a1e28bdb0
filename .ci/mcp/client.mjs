// The official TypeScript client against a server: node client.mjs <base> <token> <session id>.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const [base, token, session] = process.argv.slice(2);
const connect = async (path) => {
  const headers = { Authorization: `Bearer ${token}` };
  const client = new Client({ name: 'ci', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(path, base), { requestInit: { headers } }));
  return client;
};

const slates = await connect('/mcp');
const { tools } = await slates.listTools();
assert.equal(tools.length, 13);
const call = async (client, name, args) => client.callTool({ name, arguments: args });
const found = await call(slates, 'find', { slate: 'K', glob: '*.md' });
assert.equal(found.structuredContent.items[0].path, 'core.md');
const read = await call(slates, 'read', { slate: 'K', path: 'core.md', lines: '1' });
assert.ok(read.structuredContent.citation.reference.endsWith('#L1'));
const wrong = await call(slates, 'read', { slate: 'K' });
assert.ok(wrong.isError && wrong.content[0].text.includes('`path`'));
const { resources } = await slates.listResources();
const { contents } = await slates.readResource({ uri: resources[0].uri });
assert.ok(contents[0].text.includes('Core'));
const prompt = await slates.getPrompt({ name: 'research', arguments: { slate: 'K', question: 'When?' } });
assert.ok(prompt.messages[0].content.text.includes('core.md'));
await slates.close();

const rounds = await connect(`/mcp/sessions/${session}`);
const changed = new Promise((done) => rounds.setNotificationHandler(ToolListChangedNotificationSchema, done));
assert.deepEqual((await rounds.listTools()).tools.map((tool) => tool.name), ['retrieve', 'answer']);
const round = await call(rounds, 'retrieve', { files: ['core.md'] });
assert.equal(round.structuredContent.status, 'exhausted');
await changed;
const { tools: left } = await rounds.listTools();
assert.deepEqual(left.map((tool) => tool.name), ['answer']);
const spent = await call(rounds, 'retrieve', { files: ['core.md'] });
assert.equal(spent.content[0].text, 'Retrieval budget exhausted. Produce your final answer now.');
const ended = await call(rounds, 'answer', { answer: 'On Monday.' });
assert.equal(ended.structuredContent.status, 'answered');
await rounds.close();
console.log('the TypeScript client is served');
process.exit(0);
