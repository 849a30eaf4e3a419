// Adds the token of `pinion mcp serve` to each request: the suite does not know one. Prints the port that it listens on.
//
//   node proxy.mjs FILE TOKEN      FILE has the address of the server when the first request comes
import { readFileSync } from 'node:fs';
import http from 'node:http';

const [, , file, token] = process.argv;
const server = http.createServer((request, response) => {
  const { hostname, port } = new URL(readFileSync(file, 'utf8').trim());
  // Host and Origin stay as they were sent: scenarios about DNS rebinding forge them.
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { method, url: path } = request;
  const forwarded = http.request({ hostname, port, path, method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  forwarded.on('error', () => response.destroy());
  request.pipe(forwarded);
  response.on('close', () => forwarded.destroy());
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
