// A web app that signs people in: authorization code with PKCE (RFC 6749, 7636), and a session cookie of its own.
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import * as oauth from 'oauth4webapi'

const { SERVICE_API_URL, CLIENT_ID, CLIENT_SECRET, PORT = '3000' } = process.env
const origin = `http://127.0.0.1:${PORT}` // Behind a proxy that terminates TLS, this is the public https origin.
const redirectUri = `${origin}/callback`
const issuer = new URL(SERVICE_API_URL)
// Plain HTTP is for a service on this machine only; the library refuses it otherwise.
const options = { [oauth.allowInsecureRequests]: issuer.protocol === 'http:' && /^(localhost|127\.0\.0\.1)$/.test(issuer.hostname) }
const discovered = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...options })
const server = await oauth.processDiscoveryResponse(issuer, discovered)
const client = { client_id: CLIENT_ID }
const clientAuth = oauth.ClientSecretBasic(CLIENT_SECRET)

// The browser gets a random name; tokens stay here. A real app keeps sessions in a database, encrypted.
const sessions = new Map()
const cookieName = '__Host-example' // Browsers accept this prefix only with Secure, Path=/ and no Domain.

function startSession(response, session) {
  const id = randomBytes(32).toString('base64url')
  sessions.set(id, session)
  setTimeout(() => sessions.delete(id), 3_600_000).unref()
  response.setHeader('set-cookie', `${cookieName}=${id}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=3600`)
}

const readCookie = request => request.headers.cookie?.split('; ').find(one => one.startsWith(`${cookieName}=`))?.split('=')[1]
const escape = text => text.replace(/[&<>"']/g, one => `&#${one.charCodeAt(0)};`)
const redirect = (response, location) => response.writeHead(303, { location }).end()

async function signIn(request, response) {
  const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()]
  startSession(response, { verifier, state })
  const url = new URL(server.authorization_endpoint)
  url.search = new URLSearchParams({
    client_id: CLIENT_ID, redirect_uri: redirectUri, response_type: 'code', scope: 'read', state,
    resource: `${server.issuer}/v1`,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256',
  })
  redirect(response, url.href)
}

async function callback(request, response, url) {
  const id = readCookie(request)
  const started = sessions.get(id)
  sessions.delete(id) // The state is for one use.
  if (!started?.state) return redirect(response, '/')
  const parameters = oauth.validateAuthResponse(server, client, url, started.state)
  const answer = await oauth.authorizationCodeGrantRequest(
    server, client, clientAuth, parameters, redirectUri, started.verifier, options)
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer)
  const who = await call(tokens, '/v1/whoami')
  startSession(response, { tokens, email: who.user.email }) // A new name: one from before the sign-in must not be signed in.
  redirect(response, '/')
}

async function signOut(request, response) {
  const id = readCookie(request)
  const tokens = sessions.get(id)?.tokens
  sessions.delete(id)
  if (tokens) await oauth.revocationRequest(server, client, clientAuth, tokens.refresh_token, options)
  response.setHeader('set-cookie', `${cookieName}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0`)
  redirect(response, '/')
}

async function call(tokens, path) {
  const url = new URL(path, issuer)
  const response = await oauth.protectedResourceRequest(tokens.access_token, 'GET', url, undefined, undefined, options)
  return await response.json()
}

async function home(request, response) {
  const session = sessions.get(readCookie(request))
  const page = session?.email
    ? `<p id=user>Signed in as ${escape(session.email)}<form method=post action=/sign-out><button>Sign out</button></form>`
    : '<p><a href=/sign-in>Sign in</a>'
  response.setHeader('content-type', 'text/html; charset=utf-8').setHeader('cache-control', 'no-store')
  response.end(`<!doctype html><title>Example</title><h1>Example</h1>${page}`)
}

// SameSite=Lax keeps the cookie away from forms of other sites, so none of them can send the form that signs out.
const routes = { 'GET /': home, 'GET /sign-in': signIn, 'GET /callback': callback, 'POST /sign-out': signOut }
http.createServer(async (request, response) => {
  try {
    const url = new URL(request.url, origin)
    const route = routes[`${request.method} ${url.pathname}`]
    await (route ? route(request, response, url) : response.writeHead(404).end('Not found'))
  } catch (error) {
    console.error(error.message) // Not the error: its cause can contain what the service answered.
    response.writeHead(500).end('Signing in did not work. Try again.')
  }
}).listen(Number(PORT), '127.0.0.1', () => console.log(`Listening on ${origin}`))
