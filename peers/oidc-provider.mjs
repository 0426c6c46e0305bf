// npm's oidc-provider with an adapter for PostgreSQL.
//
// A refresh is five statements, each a transaction of its own: it reads the refresh token and its grant, marks the token
// as used, and inserts a refresh token and an access token. Introspection reads the access token and its grant.
// What is cheap for the product is chosen: opaque tokens, no ID token (the scope has no `openid`), a client in the
// configuration instead of a table, and prepared statements.
import crypto from 'node:crypto'
import Provider from 'oidc-provider'
import { pool, versionOf } from './database.mjs'

const CLIENT_ID = 'bench'
const CLIENT_SECRET = 'a-secret-for-measurements-on-loopback-only'
const SCOPE = 'offline_access read'

const TABLE = `
  create table if not exists oidc_models (
    kind text not null,
    id text not null,
    payload jsonb not null,
    grant_id text,
    uid text,
    user_code text,
    expires_at timestamptz,
    consumed_at timestamptz,
    primary key (kind, id)
  );
  create index if not exists oidc_models_grant_id on oidc_models (grant_id) where grant_id is not null;
  create index if not exists oidc_models_uid on oidc_models (uid) where uid is not null;
  create index if not exists oidc_models_user_code on oidc_models (user_code) where user_code is not null;`

const FOUND = 'select payload, extract(epoch from consumed_at)::int as consumed from oidc_models where kind = $1 and'

// A named statement is prepared once for each connection.
function run(name, text, values) {
  return pool.query({ name, text, values })
}

class PostgresAdapter {
  constructor(kind) {
    this.kind = kind
  }

  async upsert(id, payload, expiresIn) {
    const expiresAt = expiresIn ? new Date(Date.now() + expiresIn * 1000) : null
    await run('upsert', `
      insert into oidc_models (kind, id, payload, grant_id, uid, user_code, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
      on conflict (kind, id) do update set payload = excluded.payload, grant_id = excluded.grant_id, uid = excluded.uid,
        user_code = excluded.user_code, expires_at = excluded.expires_at`,
    [this.kind, id, payload, payload.grantId ?? null, payload.uid ?? null, payload.userCode ?? null, expiresAt])
  }

  async findBy(column, value) {
    const { rows: [row] } = await run(`find by ${column}`, `${FOUND} ${column} = $2`, [this.kind, value])
    if (!row) return undefined
    return row.consumed === null ? row.payload : { ...row.payload, consumed: row.consumed }
  }

  find(id) {
    return this.findBy('id', id)
  }

  findByUid(uid) {
    return this.findBy('uid', uid)
  }

  findByUserCode(userCode) {
    return this.findBy('user_code', userCode)
  }

  async consume(id) {
    await run('consume', 'update oidc_models set consumed_at = now() where kind = $1 and id = $2', [this.kind, id])
  }

  async destroy(id) {
    await run('destroy', 'delete from oidc_models where kind = $1 and id = $2', [this.kind, id])
  }

  async revokeByGrantId(grantId) {
    await run('revoke', 'delete from oidc_models where kind = $1 and grant_id = $2', [this.kind, grantId])
  }
}

function makeProvider() {
  const { privateKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return new Provider('https://oidc-provider.test', {
    adapter: PostgresAdapter,
    clients: [{
      client_id: CLIENT_ID,
      client_secret: CLIENT_SECRET,
      token_endpoint_auth_method: 'client_secret_post',
      redirect_uris: ['https://client.test/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      id_token_signed_response_alg: 'ES256',
    }],
    // It signs nothing here, but the provider does not start without a key of its own.
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' }] },
    cookies: { keys: [crypto.randomBytes(32).toString('base64url')] },
    scopes: ['openid', 'offline_access', 'read'],
    rotateRefreshToken: true,
    ttl: { AccessToken: 86_400, RefreshToken: 14 * 86_400, Grant: 14 * 86_400 },
    features: {
      devInteractions: { enabled: false },
      introspection: { enabled: true, allowedPolicy: (_, client, token) => token.clientId === client.clientId },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  })
}

export async function handler() {
  return makeProvider().callback()
}

// Creates sessions as the authorization code grant does, through the product's own models.
export async function setup(count) {
  await pool.query(TABLE)
  const provider = makeProvider()
  const client = await provider.Client.find(CLIENT_ID)
  const sessions = []
  for (let number = 0; number < count; number += 1) {
    const accountId = `user${number}`
    const grant = new provider.Grant({ clientId: CLIENT_ID, accountId })
    grant.addOIDCScope(SCOPE)
    const issued = { accountId, client, grantId: await grant.save(), gty: 'authorization_code', scope: SCOPE }
    sessions.push({
      refresh_token: await new provider.RefreshToken(issued).save(),
      access_token: await new provider.AccessToken(issued).save(),
    })
  }
  const credentials = `client_id=${CLIENT_ID}&client_secret=${CLIENT_SECRET}`
  return {
    product: 'oidc-provider',
    version: versionOf('oidc-provider'),
    refresh: { path: '/token', body: `grant_type=refresh_token&${credentials}&refresh_token=` },
    introspect: { path: '/token/introspection', body: `${credentials}&token_type_hint=access_token&token=` },
    sessions,
  }
}
