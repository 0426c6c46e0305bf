// A client on the TypeScript SDK, version 1 or 2, that knows nothing but the address of the server.
import { close, did, listen, open, reads, writes } from './talk.mjs'

const { MCP_URL, SDK, PIN, DOCUMENT, WITHOUT_REFRESH } = process.env
const sdk = SDK === 'v1' ? await version1() : await import('@modelcontextprotocol/client')
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = sdk

async function version1() {
  const parts = await Promise.all(['index', 'streamableHttp', 'auth'].map(part =>
    import(`@modelcontextprotocol/sdk/client/${part}.js`)))
  return Object.assign({}, ...parts)
}

const callback = await listen()
const kept = {}
// What an app keeps for the SDK. Nothing here knows the server.
const provider = {
  redirectUrl: callback.redirectUri,
  clientMetadataUrl: DOCUMENT || undefined,
  clientMetadata: {
    client_name: `TypeScript SDK ${SDK}`,
    redirect_uris: [callback.redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  },
  state: () => crypto.randomUUID(),
  clientInformation: () => kept.client,
  saveClientInformation: client => { kept.client = client },
  tokens: () => kept.tokens,
  // Some apps keep no refresh tokens.
  saveTokens: tokens => { kept.tokens = WITHOUT_REFRESH ? { ...tokens, refresh_token: undefined } : tokens },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: verifier => { kept.verifier = verifier },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: discovery => { kept.discovery = discovery },
  redirectToAuthorization: url => open(url),
}

let client, transport

/** Does something; if the SDK sends the user away, waits for the user's return and does it again. */
async function withUser(action) {
  try {
    return await action()
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error
    const answer = await callback.next()
    await transport.finishAuth(SDK === 'v1' ? answer.get('code') : answer)
    return await action()
  }
}

await withUser(async () => {
  client = new Client({ name: 'interop', version: '1' }, PIN ? { versionNegotiation: { mode: { pin: PIN } } } : {})
  transport = new StreamableHTTPClientTransport(new URL(MCP_URL), { authProvider: provider })
  await client.connect(transport)
})
did('connect', { protocol: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion, client: kept.client.client_id })

const { tools } = await client.listTools()
did('list', { tools: tools.map(tool => tool.name) })
const call = (name, parameters) => withUser(() => client.callTool({ name, arguments: parameters }))
// Without refresh tokens there is nothing to do when one has expired.
if (!WITHOUT_REFRESH) await reads(call)
await writes(call)
did('end', { scope: kept.tokens.scope })
await client.close()
callback.close()
close()
