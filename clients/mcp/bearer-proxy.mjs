// Adds an access token to every request: the conformance suite cannot send one. Prints its port.
// A host and an origin that name this proxy become those of the server; all others are left alone, because the suite tests them.
import http from 'node:http'

const { TARGET, BEARER } = process.env
const target = new URL(TARGET)

const proxy = http.createServer((request, response) => {
  const own = `127.0.0.1:${proxy.address().port}`
  const headers = { ...request.headers, authorization: `Bearer ${BEARER}` }
  if (headers.host === own) headers.host = target.host
  if (headers.origin === `http://${own}`) headers.origin = target.origin
  const { hostname, port } = target
  const forwarded = http.request({ hostname, port, path: request.url, method: request.method, headers }, answer => {
    response.writeHead(answer.statusCode, answer.headers)
    answer.pipe(response)
  })
  forwarded.on('error', error => response.writeHead(502).end(String(error)))
  response.on('close', () => forwarded.destroy())
  request.pipe(forwarded)
})
proxy.listen(0, '127.0.0.1', () => console.log(proxy.address().port))
