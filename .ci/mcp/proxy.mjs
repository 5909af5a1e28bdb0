// Adds a token to what the conformance suite sends, which sends none: node proxy.mjs <base> <token>; prints its port.
import http from 'node:http';

const [base, token] = process.argv.slice(2);
const target = new URL(base);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { hostname, port } = target;
  const onward = http.request({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  request.pipe(onward);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
