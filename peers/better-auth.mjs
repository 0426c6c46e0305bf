// npm's better-auth with its plugin for OAuth servers.
//
// A refresh is five statements, each a transaction of its own: it reads the refresh token and the user, marks the token
// as revoked, and inserts a refresh token and an access token. Introspection reads the access token, its session and
// its user. What is cheap for the product is chosen: opaque tokens, no ID token (the scope has no `openid`), and a
// client that is cached in memory.
import { getOAuthProviderApi, oauthProvider } from '@better-auth/oauth-provider'
import { betterAuth } from 'better-auth'
import { getMigrations } from 'better-auth/db/migration'
import { jwt } from 'better-auth/plugins'
import { getRequest } from 'better-call/node'
import { pool, versionOf } from './database.mjs'

const BASE_URL = 'https://better-auth.test'
const CLIENT_ID = 'bench'
const CLIENT_SECRET = 'a-secret-for-measurements-on-loopback-only'
const SCOPES = ['offline_access', 'read']

function makeAuth() {
  return betterAuth({
    baseURL: BASE_URL,
    secret: 'another-secret-for-measurements-on-loopback-only',
    database: pool,
    // The limits allow 20 refreshes a minute, and all requests come from one address.
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    disabledPaths: ['/token'],
    plugins: [
      jwt({ disableSettingJwtHeader: true }),
      oauthProvider({
        loginPage: '/sign-in',
        consentPage: '/consent',
        scopes: SCOPES,
        accessTokenExpiresIn: 86_400,
        cachedTrustedClients: new Set([CLIENT_ID]),
        silenceWarnings: { oauthAuthServerConfig: true, openidConfig: true },
      }),
    ],
  })
}

// As the product's own `toNodeHandler`, except that a response is written at once and so has a Content-Length.
export async function handler() {
  const auth = makeAuth()
  return async (request, response) => {
    try {
      const answer = await auth.handler(getRequest({ base: BASE_URL, request }))
      const body = Buffer.from(await answer.arrayBuffer())
      answer.headers.set('content-length', String(body.length))
      response.writeHead(answer.status, [...answer.headers].flat()).end(body)
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  }
}

async function makeClient(context) {
  const provider = context.getPlugin('oauth-provider').options
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(CLIENT_SECRET))
  await context.adapter.create({
    model: 'oauthClient',
    data: {
      clientId: CLIENT_ID,
      clientSecret: Buffer.from(digest).toString('base64url'),
      tokenEndpointAuthMethod: 'client_secret_post',
      redirectUris: ['https://client.test/callback'],
      grantTypes: ['authorization_code', 'refresh_token'],
      scopes: SCOPES,
      createdAt: new Date(),
    },
  })
  return getOAuthProviderApi({ context, json: (body) => body, headers: new Headers() }, provider, 'authorization_code')
}

// Creates a user and a session for each pair of tokens. The plugin issues the tokens.
export async function setup(count) {
  const auth = makeAuth()
  await (await getMigrations(auth.options)).runMigrations()
  const context = await auth.$context
  const provider = await makeClient(context)
  const client = await provider.getClient(CLIENT_ID)
  const sessions = []
  for (let number = 0; number < count; number += 1) {
    const user = await context.internalAdapter.createUser({ name: `User ${number}`, email: `user${number}@client.test` })
    const session = await context.internalAdapter.createSession(user.id)
    const issued = await provider.issueTokens({ client, user, scopes: SCOPES, sessionId: session.id, authTime: new Date() })
    sessions.push({ refresh_token: issued.refresh_token, access_token: issued.access_token })
  }
  const credentials = `client_id=${CLIENT_ID}&client_secret=${CLIENT_SECRET}`
  return {
    product: 'better-auth',
    version: versionOf('better-auth'),
    refresh: { path: '/api/auth/oauth2/token', body: `grant_type=refresh_token&${credentials}&refresh_token=` },
    introspect: { path: '/api/auth/oauth2/introspect', body: `${credentials}&token_type_hint=access_token&token=` },
    sessions,
  }
}
