// Signs in with the stock library oauth4webapi, from nothing but the issuer's address.
// Prints the address that a person has to open, and reads where the browser was sent afterwards.
import * as oauth from 'oauth4webapi'
import readline from 'node:readline'

const { ISSUER, CLIENT_ID, REDIRECT_URI } = process.env
const plain = { [oauth.allowInsecureRequests]: true }
const issuer = new URL(ISSUER)
const discovered = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...plain })
const server = await oauth.processDiscoveryResponse(issuer, discovered)
const client = { client_id: CLIENT_ID }
const none = oauth.None()

const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const address = new URL(server.authorization_endpoint)
address.searchParams.set('client_id', CLIENT_ID)
address.searchParams.set('redirect_uri', REDIRECT_URI)
address.searchParams.set('response_type', 'code')
address.searchParams.set('scope', 'read')
address.searchParams.set('state', state)
address.searchParams.set('code_challenge', await oauth.calculatePKCECodeChallenge(verifier))
address.searchParams.set('code_challenge_method', 'S256')
console.log(address.href)

const lines = readline.createInterface({ input: process.stdin })
const { value: answered } = await lines[Symbol.asyncIterator]().next()
const parameters = oauth.validateAuthResponse(server, client, new URL(answered), state)
const exchanged = await oauth.authorizationCodeGrantRequest(
  server, client, none, parameters, REDIRECT_URI, verifier, plain)
const tokens = await oauth.processAuthorizationCodeResponse(server, client, exchanged)
const refreshing = await oauth.refreshTokenGrantRequest(server, client, none, tokens.refresh_token, plain)
const fresh = await oauth.processRefreshTokenResponse(server, client, refreshing)
const who = await oauth.protectedResourceRequest(
  fresh.access_token, 'GET', new URL('/v1/whoami', issuer), undefined, undefined, plain)
console.log(who.status === 200 ? 'signed in and refreshed' : `whoami answers ${who.status}`)
process.exit(who.status === 200 ? 0 : 1)
