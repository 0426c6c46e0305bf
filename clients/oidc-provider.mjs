// An identity provider for tests: npm's oidc-provider, with two accounts, pages of its own, and back-channel logout.
// It listens on loopback and ends when its standard input does. Its first line of output is JSON: where the provider is
// (`issuer`), and where a test tells it what to do (`admin`).
//
// HOST (127.0.0.1) is the name in the issuer; `localhost` is another site to a browser. PORT and ADMIN_PORT choose ports.
// With CLIENT_ID, CLIENT_SECRET and REDIRECT_URI there is a client from the beginning; BACKCHANNEL_LOGOUT_URI is optional.
//
// POST to the admin address, with JSON:
//   /clients       {client_id, client_secret, redirect_uri, backchannel_logout_uri?}  registers a client, or changes it
//   /accounts      {sub, email?, email_verified?, name?, …}  changes the claims of an account, or creates it; null removes one
//   /remove-user   {sub}   disables an account: back-channel logout to every client, and no further sign-in
//   /rotate-keys   {}      signs with a new key; the former one is no longer published
//   /answer        {how, path?}  `normally`, `never` (connections stay open), `refuse` (connections are closed), or a status,
//                  for every path or for those that begin so
//   /requests      {}      answers with how often each path was requested since the last time
import crypto from 'node:crypto'
import http from 'node:http'
import { promisify } from 'node:util'
import Provider, { interactionPolicy } from 'oidc-provider'

// Only the first line is for standard output: later, the reader may be gone.
console.info = console.error

const { HOST = '127.0.0.1', PORT = '0', ADMIN_PORT = '0' } = process.env
const { CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, BACKCHANNEL_LOGOUT_URI } = process.env

const accounts = new Map([
  ['ann', { sub: 'ann', email: 'ann@acme.test', email_verified: true, name: 'Ann Example' }],
  ['bob', { sub: 'bob', email: 'bob@acme.test', email_verified: true, name: 'Bob Example' }],
])
const removed = new Set()
const clients = new Map()
const requests = new Map()
const cookieKey = crypto.randomBytes(32).toString('base64url')
let answer = { how: 'normally', path: '/' }
let issuer
let provider

// A user who was removed has to sign in, also in a browser that is still signed in here.
function policy() {
  const prompts = interactionPolicy.base()
  const isRemoved = ({ oidc }) => removed.has(oidc.session.accountId)
  prompts.get('login').checks.add(new interactionPolicy.Check('removed', 'the user was removed', isRemoved))
  return prompts
}

async function newKey() {
  const { privateKey } = await promisify(crypto.generateKeyPair)('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: crypto.randomUUID() }
}

// A provider takes its keys once, so another key is another provider. Sessions are kept outside of it.
async function makeProvider() {
  const made = new Provider(issuer, {
    jwks: { keys: [await newKey()] },
    cookies: { keys: [cookieKey] },
    claims: {
      openid: ['sub', 'tid', 'oid'], email: ['email', 'email_verified'], profile: ['name'], sid: null, auth_time: null,
    },
    conformIdTokenClaims: false,
    // Logout tokens go to loopback, which the library would refuse.
    fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    pkce: { required: () => true },
    interactions: { policy: policy(), url: (_, interaction) => `/interaction/${interaction.uid}` },
    // The users of a company do not consent to the service that their company connected.
    async loadExistingGrant(ctx) {
      const { client, session } = ctx.oidc
      const known = session.grantIdFor(client.clientId)
      const grant = known && await ctx.oidc.provider.Grant.find(known)
      if (grant) return grant
      const made = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId })
      made.addOIDCScope('openid email profile')
      await made.save()
      return made
    },
    async findAccount(_, id) {
      const account = accounts.get(id)
      return account && !removed.has(id) ? { accountId: id, claims: () => account } : undefined
    },
  })
  for (const client of clients.values()) await made.Client.adapter.upsert(client.client_id, client)
  return made
}

async function register({ client_id, client_secret, redirect_uri, backchannel_logout_uri }) {
  const client = {
    client_id, client_secret, redirect_uris: [redirect_uri], grant_types: ['authorization_code'],
    response_types: ['code'], id_token_signed_response_alg: 'RS256', require_auth_time: true,
    ...(backchannel_logout_uri && { backchannel_logout_uri }),
  }
  clients.set(client_id, client)
  await provider.Client.adapter.upsert(client_id, client)
}

const page = (title, body) => `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title></head>
<body><main><h1>${title}</h1>${body}</main></body></html>`

function send(response, status, type, text) {
  response.writeHead(status, { 'content-type': type }).end(text)
}

async function bodyOf(request) {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

// The provider's own sign-in page: the user names an account. There are no passwords.
async function interact(request, response) {
  const { uid, prompt, params } = await provider.interactionDetails(request, response)
  if (request.method === 'POST') {
    const login = new URLSearchParams(await bodyOf(request)).get('login')
    const id = [...accounts.values()].find((account) => account.sub === login || account.email === login)?.sub
    if (id && !removed.has(id)) {
      return provider.interactionFinished(request, response, { login: { accountId: id } }, { mergeWithLastSubmission: false })
    }
    if (login === 'cancel') {
      return provider.interactionFinished(request, response, { error: 'access_denied' }, { mergeWithLastSubmission: false })
    }
  }
  const hint = String(params.login_hint ?? '').replace(/[^\w@.+-]/g, '')
  return send(response, 200, 'text/html', page('Acme sign-in', `<p>${prompt.name}</p>
<form method="post" action="/interaction/${uid}">
<label for="login">Account</label> <input id="login" name="login" value="${hint}" autofocus>
<button type="submit">Sign in</button></form>`))
}

async function serve(request, response) {
  const { pathname } = new URL(request.url, issuer)
  requests.set(pathname, (requests.get(pathname) ?? 0) + 1)
  const how = pathname.startsWith(answer.path) ? answer.how : 'normally'
  if (how === 'never') return
  if (how === 'refuse') return void request.socket.destroy()
  if (how !== 'normally') return send(response, Number(how), 'text/plain', 'told to')
  if (pathname.startsWith('/interaction/')) return interact(request, response)
  provider.callback()(request, response)
}

const commands = {
  '/clients': register,
  '/accounts': (claims) => {
    const changed = { ...accounts.get(claims.sub), ...claims }
    accounts.set(claims.sub, Object.fromEntries(Object.entries(changed).filter(([, value]) => value !== null)))
    removed.delete(claims.sub)
  },
  '/remove-user': async ({ sub }) => {
    removed.add(sub)
    const told = [...clients.values()].filter((client) => client.backchannel_logout_uri)
    for (const { client_id } of told) await (await provider.Client.find(client_id)).backchannelLogout(sub)
  },
  '/rotate-keys': async () => { provider = await makeProvider() },
  '/answer': ({ how, path = '/' }) => { answer = { how: String(how), path } },
  '/requests': () => {
    const counted = Object.fromEntries(requests)
    requests.clear()
    return counted
  },
}

async function administer(request, response) {
  const command = commands[new URL(request.url, issuer).pathname]
  if (request.method !== 'POST' || !command) return send(response, 404, 'text/plain', 'There is no such command.')
  const done = await command(JSON.parse(await bodyOf(request) || '{}'))
  send(response, 200, 'application/json', JSON.stringify(done ?? {}))
}

async function listen(handler, port, host = '127.0.0.1') {
  const server = http.createServer((request, response) => {
    handler(request, response).catch((error) => send(response, 500, 'text/plain', String(error)))
  })
  await new Promise((resolve, reject) => server.once('error', reject).listen(Number(port), host, resolve))
  return server.address().port
}

const port = await listen(serve, PORT)
// `localhost` may be the other loopback address; not every machine has it.
if (HOST === 'localhost') await listen(serve, port, '::1').catch(() => {})
issuer = `http://${HOST}:${port}`
provider = await makeProvider()
if (CLIENT_ID) {
  await register({
    client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uri: REDIRECT_URI,
    backchannel_logout_uri: BACKCHANNEL_LOGOUT_URI,
  })
}
const admin = `http://127.0.0.1:${await listen(administer, ADMIN_PORT)}`
console.log(JSON.stringify({ issuer, admin }))
process.stdin.on('end', () => process.exit(0)).resume()
