// An MCP client that knows nothing but the address of the server: it finds out how to sign in, registers itself, sends its user
// to a browser, and calls a tool.
import http from 'node:http'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'

const address = new URL(process.env.MCP_URL)

/** Waits for the browser on a port of this machine. Answers that do not belong to this sign-in are ignored. */
async function listen(state) {
  let arrived
  const answer = new Promise(resolve => { arrived = resolve })
  const server = http.createServer((request, response) => {
    const base = 'http://127.0.0.1'
    const url = new URL(URL.canParse(request.url, base) ? request.url : '/', base)
    const isOurs = url.pathname === '/callback' && url.searchParams.get('state') === state
    response.writeHead(isOurs ? 200 : 404, { 'content-type': 'text/plain', connection: 'close' })
    response.end(isOurs ? 'You can close this window.' : '')
    if (isOurs) arrived(url.searchParams)
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return { redirectUri: `http://127.0.0.1:${server.address().port}/callback`, answer, close: () => server.close() }
}

const state = crypto.randomUUID()
const callback = await listen(state)
// What the SDK asks its app to remember. This one forgets it at its end; an app that stores tokens does so in a file with mode
// 0600 or in a keyring.
const kept = {}
const authProvider = {
  redirectUrl: callback.redirectUri,
  clientMetadata: {
    client_name: 'Example MCP client',
    redirect_uris: [callback.redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => state,
  clientInformation: () => kept.client,
  saveClientInformation: client => { kept.client = client },
  tokens: () => kept.tokens,
  saveTokens: tokens => { kept.tokens = tokens },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: verifier => { kept.verifier = verifier },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: discovery => { kept.discovery = discovery },
  redirectToAuthorization: url => console.log(`To sign in, open ${url.href}`),
}

async function connect() {
  const client = new Client({ name: 'example', version: '1.0.0' })
  const transport = new StreamableHTTPClientTransport(address, { authProvider })
  try {
    await client.connect(transport)
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error
    await transport.finishAuth(await callback.answer)
    return await connect()
  }
  return client
}

const client = await connect()
callback.close()
const { tools } = await client.listTools()
console.log(`Tools: ${tools.map(tool => tool.name).join(', ')}`)
const result = await client.callTool({ name: 'whoami', arguments: {} })
console.log(result.content.filter(part => part.type === 'text').map(part => part.text).join('\n'))
await client.close()
